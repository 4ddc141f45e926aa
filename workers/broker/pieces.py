"""Output of a command that waits for its readers, in pieces whose real cost is counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from workers.broker.interface import Stream

SMALL = 4096  # a piece that is smaller takes more of its stream in
OVERHEAD = 200  # bytes of memory that a piece takes besides its content
Piece = tuple[Stream, bytes]


class Pieces:
    """Pieces of both streams, in order. A program may write single bytes: small ones are merged, and each counts for
    what it takes. `size` is that of all."""

    def __init__(self) -> None:
        self.size = 0
        self._pieces: deque[tuple[Stream, bytearray]] = deque()

    def __len__(self) -> int:
        return len(self._pieces)

    def __iter__(self) -> Iterator[Piece]:
        return ((stream, bytes(data)) for stream, data in self._pieces)

    def cost(self, stream: Stream, data: bytes) -> int:
        """Return by how much `add` would raise the size."""
        return len(data) + (0 if self._merges(stream) else OVERHEAD)

    def add(self, stream: Stream, data: bytes) -> None:
        self.size += self.cost(stream, data)
        if self._merges(stream):
            self._pieces[-1][1].extend(data)
        else:
            self._pieces.append((stream, bytearray(data)))

    def take(self) -> Piece:
        """Remove the first piece and return it."""
        stream, data = self._pieces.popleft()
        self.size -= len(data) + OVERHEAD
        return stream, bytes(data)

    def drop(self, size: int) -> None:
        """Remove what takes at least `size` bytes from the beginning."""
        while size > 0 and self._pieces:
            data = self._pieces[0][1]
            if size < len(data):
                del data[:size]
                self.size -= size
                return
            size -= len(data) + OVERHEAD
            self.take()

    def clear(self) -> None:
        self._pieces.clear()
        self.size = 0

    def _merges(self, stream: Stream) -> bool:
        return bool(self._pieces) and self._pieces[-1][0] == stream and len(self._pieces[-1][1]) < SMALL
