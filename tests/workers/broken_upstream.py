"""A server whose answers break off, and what its clients' clients get."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

ANSWERS = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegun",
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n",
}


@asynccontextmanager
async def broken_upstream(answer: str) -> AsyncIterator[str]:
    """Its address; it sends the beginning of an answer, then closes the connection."""

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWERS[answer])
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.close()

    server = await asyncio.start_server(answered, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def raw_answer(url: str, request: str = "", body: str = "") -> bytes:
    """All that comes back on one connection, which must then be closed."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    head = f"{'POST' if body else 'GET'} {parts.path}?{parts.query} HTTP/1.1\r\nHost: x\r\n{request}"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    async with asyncio.timeout(5):
        found = await reader.read()
    writer.close()
    return found
