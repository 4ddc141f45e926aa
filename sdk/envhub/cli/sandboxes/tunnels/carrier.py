"""Holds a tunnel: what sandboxes send to its address arrives at a port of this machine.

See envhub.protocol.sandboxes.tunnels for what is said over the web sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import httpx
from pydantic import ValidationError
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from envhub.protocol.sandboxes.tunnels import EOF, PIECE, NoConnection, WantedConnection

MESSAGE_LIMIT = 1024 * 1024
GONE = {404, 409}  # statuses of a tunnel that is deleted, and of one whose sandbox has ended
Say = Callable[[str, str], None]  # a level, as frpc's: "I", "W" or "E"; and a text


class TunnelGone(Exception):
    """It has been deleted, or what stood for its sandboxes has ended."""


@dataclass
class Carrier:
    """`address` is what the hub gave for the tunnel; `host` and `port` are of this machine."""

    address: str
    host: str
    port: int
    say: Say
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def carry(self) -> None:
        """Until the tunnel is closed; a connection to the hub that is lost is made again. Raises TunnelGone."""
        try:
            async for control in self._socket(""):
                self.say("I", "login to server success")
                self.say("I", "start proxy success")
                with suppress(ConnectionClosed):
                    await self._listen(control)
        except InvalidStatus as error:
            raise TunnelGone(f"the hub answered {error.response.status_code}") from error
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _failed(self, error: Exception) -> Exception | None:
        """What ends it; None for what is tried again, with pauses that grow."""
        if isinstance(error, InvalidStatus) and error.response.status_code in GONE:
            return error
        self.say("W", f"connect to server error: {error}")
        return None

    async def _listen(self, control: ClientConnection) -> None:
        async for text in control:
            try:
                wanted = WantedConnection.model_validate_json(text)
            except ValidationError:
                self.say("W", "the hub sent what is no message of this protocol; is this program older than the hub?")
                continue
            task = asyncio.create_task(self._connection(control, wanted.connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connection(self, control: ClientConnection, name: str) -> None:
        try:
            reader, writer = await asyncio.open_connection(self.host, self.port)
        except OSError as error:
            self.say("W", f"connect to local service [{self.host}:{self.port}] error: {error}")
            refused = NoConnection(connection=name, reason=f"nothing listens on port {self.port} of the client")
            with suppress(ConnectionClosed):
                await control.send(refused.model_dump_json())
            return
        try:
            async with self._socket(f"/{name}") as stream:
                await _pass_on(stream, reader, writer)
        except (OSError, WebSocketException) as error:
            self.say("W", f"a connection broke off: {error}")
        finally:
            writer.close()

    def _socket(self, path: str) -> connect:
        """With the authorities that the rest of this command trusts."""
        return connect(
            "ws" + self.address.removeprefix("http") + path,
            ssl=httpx.create_ssl_context() if self.address.startswith("https:") else None,
            compression=None,
            max_size=MESSAGE_LIMIT,
            process_exception=self._failed,
        )


async def _pass_on(stream: ClientConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Bytes both ways, until both have ended or the web socket has."""
    outward = asyncio.create_task(_outward(stream, reader))
    try:
        async for message in stream:
            if isinstance(message, str):  # EOF: the other way may go on
                writer.write_eof()
                await outward
                return
            writer.write(message)
            await writer.drain()
    finally:
        outward.cancel()
        await asyncio.gather(outward, return_exceptions=True)


async def _outward(stream: ClientConnection, reader: asyncio.StreamReader) -> None:
    with suppress(OSError, ConnectionClosed):
        while piece := await reader.read(PIECE):
            await stream.send(piece)
        await stream.send(EOF)
