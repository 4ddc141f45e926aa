"""The way from one process to another, which a test may break: a TCP proxy in front of a port."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import StrEnum

from tests.fakes.tcp_thread import CHUNK, TcpThread

PAUSE_S = 0.5
TOLD = b"<Error><Code>InternalError</Code><Message>We were told to.</Message></Error>\n"
HEAD = b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/xml\r\nConnection: close\r\n"
ERROR = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(TOLD), TOLD)


class Way(StrEnum):
    """What becomes of bytes."""

    OPEN = "they arrive"
    SILENT = "they vanish; nobody hears of it"
    CLOSED = "connections are refused and broken"
    SLOW = "each piece waits"
    FAILING = "every HTTP request is answered 500"


class FaultyLink(TcpThread):
    """Listens on a port of its own while the context lasts. `way` may be set at any time, from any thread."""

    def __init__(self, target: int, port: int) -> None:
        super().__init__(port, "faulty link")
        self._target = target
        self._way = Way.OPEN
        self._mended = asyncio.Event()
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def way(self) -> Way:
        """As it is now."""
        return self._way

    @way.setter
    def way(self, way: Way) -> None:
        asyncio.run_coroutine_threadsafe(self._turn(way), self._loop).result(30)

    async def _turn(self, way: Way) -> None:
        """What was open before a long silence is not open after it; a server that fails has broken what it had."""
        if Way.SLOW not in (self._way, way) and way is not Way.SILENT:
            for writer in self._open:
                writer.transport.abort()
        self._way = way
        if way is Way.SILENT:
            self._mended.clear()
        else:
            self._mended.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, as the way is when it comes."""
        self._open.add(writer)
        try:
            if self._way is Way.SILENT:
                await self._mended.wait()
            elif self._way is Way.FAILING:
                await answer_error(reader, writer)
            elif self._way is not Way.CLOSED:
                await self._pass_on(reader, writer)
        finally:
            self._open.discard(writer)
            if self._way is Way.CLOSED:
                writer.transport.abort()
            else:
                writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            behind = await asyncio.open_connection("127.0.0.1", self._target)
            self._open.add(behind[1])
            try:
                await asyncio.gather(self._pump(reader, behind[1]), self._pump(behind[0], writer))
            finally:
                self._open.discard(behind[1])

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(CHUNK):
                if self._way is Way.SLOW:
                    await asyncio.sleep(PAUSE_S)
                if self._way is Way.SILENT:
                    await self._mended.wait()
                    break
                target.write(data)
                await target.drain()
        target.close()


async def answer_error(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read one request, as far as its sender sends it without being asked to, and fail it."""
    with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = head.partition(b"content-length:")[2].split(b"\r\n")[0].strip()
        if length.isdigit() and b"expect: 100-continue" not in head:
            await reader.readexactly(int(length))
        writer.write(ERROR)
        await writer.drain()
