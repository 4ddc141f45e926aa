"""Where backups lie: files by relative paths, each written at once or not at all. Nothing there is trusted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, NamedTuple, Protocol


class Entry(NamedTuple):
    """One file."""

    path: str
    size: int


class Destination(Protocol):
    """Safe to use from several threads. All methods raise Unavailable when it cannot be reached or written."""

    @property
    def name(self) -> str:
        """As the operator wrote it."""

    def writing(self, path: str) -> AbstractContextManager[BinaryIO]:
        """A stream whose content is the file once the context ends without an error."""

    def open(self, path: str) -> BinaryIO:
        """A stream from the first byte. Raises NotFound."""

    def entries(self, folder: str) -> Iterator[Entry]:
        """All files below a folder, in any order."""

    def delete(self, path: str) -> None:
        """Remove a file; absent is fine."""
