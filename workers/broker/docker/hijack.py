"""Turn an HTTP connection into a plain two-way byte stream after its request, for attaching to a command."""

from __future__ import annotations

import asyncio
import fcntl
import sys
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing

from aiohttp import web

RAW, FRAMED = "application/vnd.docker.raw-stream", "application/vnd.docker.multiplexed-stream"
SWITCH = "HTTP/1.1 101 UPGRADED\r\nContent-Type: {kind}\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
PLAIN = "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n"
PIECE = 64 * 1024
HEAD_S = 5.0


async def hijack(
    request: web.Request,
    output: AsyncIterator[bytes],
    feed: Callable[[bytes], Awaitable[None]] | None,
    close: Callable[[], Awaitable[None]] | None,
    *,
    framed: bool,
    begin: Callable[[], Awaitable[None]] | None = None,
) -> web.Response:
    """Send `output` to its end while passing received bytes to `feed`, and call `close` at the end of input.

    The connection ends with the output. `begin` is called after the client has read the answer's head, because clients
    lose output that arrives together with it.
    """
    reader, writer = _take_over(request)
    with closing(writer):  # from here on an error has no other way to the client
        wants = request.headers.get("Upgrade", "").lower() == "tcp"
        writer.write((SWITCH if wants else PLAIN).format(kind=FRAMED if framed else RAW).encode())
        await writer.drain()
        if begin is not None:
            await _head_was_read(writer)
            await begin()
        reading = asyncio.create_task(_read(reader, feed, close))
        try:
            async for piece in output:
                writer.write(piece)
                await writer.drain()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    return web.Response()


async def _head_was_read(writer: asyncio.StreamWriter) -> None:
    """Wait until the client has read everything sent so far, or for HEAD_S: a busy host may stop it in between."""
    sent = writer.get_extra_info("socket")
    deadline = asyncio.get_running_loop().time() + HEAD_S
    while asyncio.get_running_loop().time() < deadline:
        unread = fcntl.ioctl(sent.fileno(), termios.TIOCOUTQ, bytes(4))
        if not int.from_bytes(unread, sys.byteorder):
            return
        await asyncio.sleep(0.002)


def _take_over(request: web.Request) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Take the connection over from aiohttp's server.

    The server's protocol would drop the connection when a client closes its sending side, which only means that there
    is no more input.
    """
    server, transport, loop = request.protocol, request.transport, asyncio.get_running_loop()
    if not isinstance(transport, asyncio.Transport):
        raise ConnectionResetError("the client has gone")
    reader = asyncio.StreamReader(limit=PIECE)
    streams = _Streams(reader, server)
    streams.connection_made(transport)
    transport.set_protocol(streams)
    return reader, asyncio.StreamWriter(transport, streams, reader, loop)


class _Streams(asyncio.StreamReaderProtocol):
    def __init__(self, reader: asyncio.StreamReader, server: asyncio.Protocol) -> None:
        super().__init__(reader)
        self._server = server

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the server too, because it counts its connections."""
        super().connection_lost(exc)
        self._server.connection_lost(exc)


async def _read(
    reader: asyncio.StreamReader,
    feed: Callable[[bytes], Awaitable[None]] | None,
    close: Callable[[], Awaitable[None]] | None,
) -> None:
    while piece := await reader.read(PIECE):
        if feed is not None:
            await feed(piece)
    if close is not None:
        await close()
