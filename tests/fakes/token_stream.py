"""A lean stub engine: any POST is a stream of `chunks` server-sent events, the first at once, then one each `pause_s`.

    async with TokenStream() as engine: ... engine.base_url, engine.open
or, as a process: `python -m tests.fakes.token_stream --chunks 20 --pause 0.5`.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Self

EVENT = b'data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"token "}}]}\n\n'
DONE = b"data: [DONE]\n\n"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def framed(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


class TokenStream:
    """The server. `open` is the number of streams that are being written: the slots of an engine."""

    def __init__(self, *, chunks: int = 20, pause_s: float = 0.5) -> None:
        self.chunks = chunks
        self.pause_s = pause_s
        self.open = 0
        self.base_url = ""
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0, backlog=2048)
        self.base_url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()


class _Connection(asyncio.Protocol):
    """One kept-alive connection: a request at a time."""

    def __init__(self, engine: TokenStream) -> None:
        self._engine = engine
        self._received = b""
        self._next: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, mark, body = self._received.partition(b"\r\n\r\n")
        if not mark or len(body) < _length(head):
            return
        self._received = body[_length(head) :]
        self._engine.open += 1
        self._transport.write(HEAD)
        self._write(self._engine.chunks)

    def _write(self, left: int) -> None:
        if left:
            self._transport.write(framed(EVENT))
            self._next = asyncio.get_running_loop().call_later(self._engine.pause_s, self._write, left - 1)
            return
        self._transport.write(framed(DONE) + b"0\r\n\r\n")
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._next is not None:
            self._end()

    def _end(self) -> None:
        if self._next is not None:
            self._next.cancel()
        self._next = None
        self._engine.open -= 1


def _length(head: bytes) -> int:
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
    return next((int(value) for name, _, value in lines if name == b"content-length"), 0)


async def serve_forever(engine: TokenStream) -> None:
    """Serve until cancelled, for use as a process."""
    async with engine:
        print(engine.base_url, flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--pause", type=float, default=0.5)
    options = parser.parse_args()
    asyncio.run(serve_forever(TokenStream(chunks=options.chunks, pause_s=options.pause)))


if __name__ == "__main__":
    main()
