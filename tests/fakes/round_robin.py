"""The smallest load balancer, for tests of several hub processes: a TCP connection goes to the next that answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import count

from tests.fakes.tcp_thread import TcpThread, pump


class RoundRobin(TcpThread):
    """Listens on a port of its own while the context lasts."""

    def __init__(self, backends: Sequence[int], port: int) -> None:
        super().__init__(port, "round robin")
        self.backends = tuple(backends)
        self._turn = count()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """To the next backend that answers."""
        for _ in self.backends:
            port = self.backends[next(self._turn) % len(self.backends)]
            with suppress(OSError):
                behind = await asyncio.open_connection("127.0.0.1", port)
                await asyncio.gather(pump(reader, behind[1]), pump(behind[0], writer))
                return
        writer.close()
