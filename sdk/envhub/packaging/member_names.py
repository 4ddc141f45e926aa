"""Which member names an archive may hold: relative, plain, unique on any file system. Called by `archives`."""

from __future__ import annotations

import unicodedata

from envhub.errors import ArchiveError

MAX_COMPONENT = 255
MAX_PATH = 1024


def check_name(name: str) -> str:
    """The member's path without a trailing slash. Raises ArchiveError when it could leave its root or fool a reader."""
    path = name.removesuffix("/")
    if path.startswith("/") or path[1:2] == ":":
        raise ArchiveError(f"absolute path in archive: {name!r}", code="unsafe_path")
    if "\\" in path or any(unicodedata.category(char) in {"Cc", "Cs"} for char in path):
        raise ArchiveError(f"backslash or control character in path: {name!r}", code="unsafe_path")
    parts = path.split("/")
    if any(part in {"", ".", ".."} for part in parts):
        raise ArchiveError(f"unsafe path in archive: {name!r}", code="unsafe_path")
    if len(path.encode()) > MAX_PATH or any(len(part.encode()) > MAX_COMPONENT for part in parts):
        raise ArchiveError(f"path too long in archive: {name[:80]!r}...", code="unsafe_path")
    return path


class NameSet:
    """The names seen so far; two that would be one file on some file system are refused."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: dict[str, str] = {}

    def add(self, path: str, *, folder: bool) -> None:
        """Take `path` in. Raises ArchiveError on a duplicate, a case collision or a file used as a folder."""
        parts = path.split("/")
        for end in range(1, len(parts) + (1 if folder else 0)):
            self._add_folder("/".join(parts[:end]))
        if folder:
            return
        key = _key(path)
        if key in self._files or key in self._folders:
            raise ArchiveError(f"two members share the name {path!r} (ignoring case)", code="duplicate_path")
        self._files.add(key)

    def _add_folder(self, path: str) -> None:
        key = _key(path)
        if key in self._files or self._folders.setdefault(key, path) != path:
            raise ArchiveError(f"two members share the name {path!r} (ignoring case)", code="duplicate_path")


def _key(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
