"""Seals: each file of a backup ends in an HMAC-SHA256 of its path and content, under a key that only the hub has.

Whoever may write at the destination can neither change a file nor put one in the place of another, and whoever has
the hub's keys can check all of them without being able to read one.
"""

from __future__ import annotations

import hmac
from typing import BinaryIO

from hub.backups.errors import Damaged

SIZE = 32  # bytes of a seal
CHUNK = 1024 * 1024


def _begin(key: bytes, path: str) -> hmac.HMAC:
    return hmac.new(key, path.encode() + b"\0", "sha256")


class SealingWriter:
    """Passes bytes on; `finish` adds the seal."""

    def __init__(self, target: BinaryIO, key: bytes, path: str) -> None:
        self._target = target
        self._mac = _begin(key, path)
        self.size = 0

    def write(self, data: bytes) -> int:
        """All of it."""
        self._mac.update(data)
        self._target.write(data)
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        """As files have it."""

    def finish(self) -> None:
        """Once, after the last byte."""
        self._target.write(self._mac.digest())


class SealedReader:
    """The content without its seal. Believe none of it before `finish` has returned."""

    def __init__(self, source: BinaryIO, key: bytes, path: str) -> None:
        self._source = source
        self._mac = _begin(key, path)
        self._path = path
        self._held = b""  # may be the seal
        self._ended = False

    def read(self, size: int = CHUNK) -> bytes:
        """At most `size` bytes; empty at the end."""
        while not self._ended and len(self._held) <= SIZE:
            more = self._source.read(CHUNK)
            self._ended = not more
            self._held += more
        there = max(0, len(self._held) - SIZE)
        data, self._held = self._held[: min(size, there)], self._held[min(size, there) :]
        self._mac.update(data)
        return data

    def finish(self) -> None:
        """Read what is left. Raises Damaged unless everything is as it was written."""
        while self.read():
            pass
        if len(self._held) < SIZE:
            raise Damaged(self._path, "it is cut off")
        if not hmac.compare_digest(self._mac.digest(), self._held):
            raise Damaged(self._path, "its seal is broken: these are not the bytes that the hub wrote")
