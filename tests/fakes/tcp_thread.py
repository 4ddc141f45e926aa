"""A TCP server on an event loop of its own thread: what stands between processes in tests."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

CHUNK = 65536


class TcpThread:
    """Listens on 127.0.0.1:`port` while the context lasts; `serve` has one connection."""

    def __init__(self, port: int, name: str) -> None:
        self.port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until it ends."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        listening = asyncio.start_server(self.serve, "127.0.0.1", self.port)
        asyncio.run_coroutine_threadsafe(listening, self._loop).result(30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _close(self) -> None:
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Bytes from one side to the other until either ends."""
    with suppress(OSError):
        while data := await source.read(CHUNK):
            target.write(data)
            await target.drain()
    target.close()
