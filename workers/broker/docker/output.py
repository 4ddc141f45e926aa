"""The output of a command: the end of it is kept for logs, all of it is passed to its followers."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from workers.broker.interface import Process, Stream
from workers.broker.pieces import Piece, Pieces

KEPT = 1024 * 1024  # bytes kept for logs
BEHIND = 256 * 1024  # bytes that a follower may lag behind before the command has to wait


class Follower:
    """A reader of the output from its creation to the command's end, made by `Output.follow`."""

    def __init__(self, output: Output, past: bool) -> None:
        self._output = output
        self._pieces = Pieces()
        for piece in output.kept if past else ():
            self._pieces.add(*piece)
        self._news = asyncio.Event()

    @property
    def size(self) -> int:
        """How much it lags behind."""
        return self._pieces.size

    def feed(self, stream: Stream, data: bytes) -> None:
        self._pieces.add(stream, data)
        self._news.set()

    def wake(self) -> None:
        self._news.set()

    async def __aiter__(self) -> AsyncIterator[Piece]:
        while True:
            self._news.clear()
            while self._pieces:
                piece = self._pieces.take()
                self._output.look()
                yield piece
            if self._output.ended:
                return
            await self._news.wait()


class Output:
    """The output of one command. `process` is paused while a follower lags far behind."""

    def __init__(self, keep: int = KEPT) -> None:
        self.kept = Pieces()
        self._keep = keep
        self.ended = False
        self.process: Process | None = None
        self._held = False
        self._followers: list[Follower] = []

    def feed(self, stream: Stream, data: bytes) -> None:
        self.kept.add(stream, data)
        self.kept.drop(self.kept.size - self._keep)
        for follower in self._followers:
            follower.feed(stream, data)
        self.look()

    def end(self) -> None:
        self.ended = True
        for follower in self._followers:
            follower.wake()

    @contextmanager
    def follow(self, *, past: bool) -> Iterator[Follower]:
        """Follow the output within the context; with `past`, first get the output that is kept."""
        follower = Follower(self, past)
        self._followers.append(follower)
        try:
            yield follower
        finally:
            self._followers.remove(follower)
            self.look()

    def look(self) -> None:
        held = any(follower.size > BEHIND for follower in self._followers)
        if self.process is not None and held != self._held:
            self._held = held
            self.process.hold_output(held)


def frame(piece: Piece) -> bytes:
    """Prefix output with its stream's number and its length, as clients expect on a multiplexed connection."""
    stream, data = piece
    return struct.pack(">BxxxL", 1 if stream == "stdout" else 2, len(data)) + data
