"""The files of a directory that is uploaded to the hub or to a sandbox."""

from __future__ import annotations

import os
from pathlib import Path

from envhub.errors import UsageError


def files_below(directory: Path, *, hidden: bool = False, skipped: list[Path] | None = None) -> dict[str, Path]:
    """Return files by their path below `directory` (with `/`), sorted; hidden files and folders only if `hidden`.

    A link to a file is that file, as in the Hugging Face cache. A link to a folder, which could contain the link, and
    what is no file are added to `skipped`; without it, they raise UsageError. So does a folder that cannot be read.
    """
    found: dict[str, Path] = {}
    for root, folders, names in os.walk(directory, onerror=_unreadable):
        if not hidden:
            folders[:] = [name for name in folders if not name.startswith(".")]
            names = [name for name in names if not name.startswith(".")]
        for path in (Path(root) / name for name in folders):
            if path.is_symlink() and skipped is not None:
                skipped.append(path)
            elif path.is_symlink():
                raise UsageError(
                    f"{path} is a link to a folder", hint="Replace it with the folder, or copy with `cp -rL`."
                )
        for path in (Path(root) / name for name in names):
            if not path.is_file() and skipped is not None:
                skipped.append(path)
                continue
            if not path.is_file():
                what = "a link to nothing" if path.is_symlink() else "no file"
                raise UsageError(f"{path} is {what}", hint="Remove it, or upload a directory without it.")
            found[path.relative_to(directory).as_posix()] = path
    return dict(sorted(found.items()))


def _unreadable(error: OSError) -> None:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return  # there are no files below what is not there or is a file
    raise UsageError(f"{error.filename} cannot be read: {error.strerror}", hint="Make it readable, or move it away.")


def size_of(files: dict[str, Path]) -> int:
    """Return how many bytes they have together."""
    return sum(path.stat().st_size for path in files.values())
