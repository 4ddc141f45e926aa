"""Keeps a folder of replaceable things within a size limit by deleting the least recently used."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path


def children(folder: Path) -> list[Path]:
    """List the entries of a folder that are used as a whole. Names with a leading dot are still being made."""
    return [entry for entry in _entries(folder) if not entry.name.startswith(".")]


def unfinished(folder: Path) -> list[Path]:
    """List entries of such a folder that are being made, or whose maker was killed."""
    return [entry for entry in _entries(folder) if entry.name.startswith(".") and not entry.name.endswith(".lock")]


def files(folder: Path) -> list[Path]:
    """List all files in a tree."""
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names]


def trim(entries: Iterable[Path], *, max_bytes: int, unused_since: float) -> int:
    """Delete entries, least recently used first, until the rest has at most `max_bytes`; return the number deleted.

    An entry's modification time marks its last use. Entries used after `unused_since` (seconds since the epoch) are
    always kept, because a live run may need them.
    """
    known = [(used, size_of(entry), entry) for entry in entries if (used := last_use(entry)) is not None]
    total, gone = sum(size for _, size, _ in known), 0
    for _, size, entry in sorted(known, key=lambda one: one[0]):
        if total <= max_bytes:
            break
        if (last_use(entry) or 0.0) > unused_since:  # check again: it may have been used in the meantime
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
        total, gone = total - size, gone + 1
    return gone


def last_use(entry: Path) -> float | None:
    """Return an entry's modification time; None if it is gone."""
    try:
        return entry.lstat().st_mtime
    except FileNotFoundError:
        return None


def size_of(entry: Path) -> int:
    """Return the bytes of a file, or of all files of a directory."""
    if not entry.is_dir() or entry.is_symlink():
        return _size(entry)
    return sum(_size(file) for file in files(entry))


def _size(file: Path) -> int:
    try:
        return file.lstat().st_size
    except FileNotFoundError:
        return 0


def _entries(folder: Path) -> Iterator[Path]:
    return folder.iterdir() if folder.is_dir() else iter(())
