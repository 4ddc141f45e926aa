"""An engine whose streams do what a test says, byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from tests.fakes.token_stream import HEAD, framed

Script = Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[None]]


@asynccontextmanager
async def raw_engine(script: Script) -> AsyncIterator[str]:
    """Its base URL. `script` is given a function that sends one chunk; the connection closes when it returns."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def send(data: bytes) -> None:
            writer.write(framed(data))
            await writer.drain()

        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(HEAD)
            with suppress(ConnectionError):
                await script(send)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()  # and no more: from Python 3.12 on, leaving `async with server` waits for scripts that never end
