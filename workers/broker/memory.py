"""A limit on the memory that the worker holds for the concurrent requests of one client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

MOST = 512 * 1024 * 1024
SMALL = 64 * 1024  # not counted


class Memory:
    """The memory budget of one client, in bytes. Waiting requests get room in any order; other clients never wait."""

    def __init__(self, most: int = MOST) -> None:
        self.free = self._most = most
        self._freed = asyncio.Event()

    def take(self, size: int) -> bool:
        """Take `size` bytes until `give_back`, or return False if there is no room."""
        if size > self.free:
            return False
        self.free -= size
        return True

    def give_back(self, size: int) -> None:
        self.free += size
        self._freed.set()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[Room]:
        """Wait for room and hold `size` bytes; the whole budget if it is less."""
        size = 0 if size <= SMALL else min(size, self._most)
        while not self.take(size):
            self._freed.clear()
            await self._freed.wait()
        room = Room(self, size)
        try:
            yield room
        finally:
            room.shrink(0)


@dataclass
class Room:
    """What one request holds."""

    memory: Memory
    size: int

    def shrink(self, size: int) -> None:
        """Give back all but `size` bytes."""
        size = 0 if size <= SMALL else min(size, self.size)
        self.memory.give_back(self.size - size)
        self.size = size


def body_size(request: web.Request, limit: int) -> int:
    """Return how many bytes the body of a request may have, of which its reader takes `limit` at most.

    aiohttp decompresses bodies: the length of one with an encoding says nothing.
    """
    length = request.content_length
    return limit if length is None or "Content-Encoding" in request.headers else min(limit, length)


MEMORY: web.AppKey[Memory] = web.AppKey("memory", Memory)
