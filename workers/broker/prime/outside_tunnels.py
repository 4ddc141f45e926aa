"""Tunnels for clients outside the hub, such as a harness on a laptop, that accept no incoming connections.

The program that replaces frpc there (envhub.cli.sandboxes.frpc) opens a web socket for its tunnel and learns on it of
each connection that a sandbox opens; for each it opens another web socket, which carries the bytes. All of them go
through the hub, so a network that lets HTTP through is enough. See envhub.protocol.sandboxes.tunnels.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from aiohttp import WSMsgType, web
from envhub.protocol.base import JsonObject
from envhub.protocol.sandboxes.tunnels import EOF, PIECE, NoConnection, WantedConnection
from pydantic import ValidationError

from workers.broker.prime.tunnels import Tunnel, Tunnels
from workers.broker.prime.unsupported import API
from workers.broker.refusals import Refusal

WAIT_S = 15.0  # how long a sandbox waits for the program, which may be reconnecting
MOST_CONNECTIONS = 256  # at once, per client
MESSAGE_LIMIT = 1024 * 1024
HEARTBEAT_S = 20.0
CLOSE_S = 2.0
ROUTE = f"{API}/tunnel/{{tunnel}}/attached/{{secret}}"
GONE = "tunnel not registered"  # the client gives up when it reads these words


class OutsideTunnels(Tunnels):
    """The tunnels of one client outside the hub."""

    def __init__(self) -> None:
        super().__init__()
        self._programs: dict[str, Program] = {}
        self._connections = asyncio.Semaphore(MOST_CONNECTIONS)

    async def connect(self, tunnel: Tunnel) -> socket.socket:
        """Ask the tunnel's program for a connection. Raises LookupError, ConnectionError."""
        if self._connections.locked():
            raise LookupError(f"{MOST_CONNECTIONS} connections of tunnels are open; end some first")
        return await self._programs[tunnel.id].connect()

    def status(self, tunnel: Tunnel) -> str:
        """Return whether the tunnel's program is pending, connected or disconnected."""
        return self._programs[tunnel.id].status

    def server(self, address: str, tunnel: Tunnel) -> JsonObject:
        """Return what the program needs; the token is the URL that it must call."""
        program, where = self._programs[tunnel.id], urlsplit(address)
        return {
            "frp_token": f"{address}/attached/{program.secret}",
            "binding_secret": "hub",
            "server_host": where.hostname,
            "server_port": where.port or 443,
        }

    def add(self, tunnel: Tunnel) -> None:
        """Add a tunnel and wait for its program to attach."""
        super().add(tunnel)
        self._programs[tunnel.id] = Program()

    def close(self, tunnel_id: str) -> bool:
        """Close a tunnel and its connections."""
        if program := self._programs.pop(tunnel_id, None):
            program.gone.set()
        return super().close(tunnel_id)

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the routes that the tunnel programs call."""
        return (web.get(ROUTE, self.attach), web.get(f"{ROUTE}/{{connection}}", self.carry))

    def program(self, request: web.Request) -> Program:
        """Return the program that a request comes from. Raises Refusal."""
        program = self._programs.get(request.match_info["tunnel"])
        if program is None or not hmac.compare_digest(program.secret, request.match_info["secret"]):
            raise Refusal(404, GONE)
        return program

    async def attach(self, request: web.Request) -> web.WebSocketResponse:
        """Serve a tunnel program's control web socket; the program counts as attached while it is open."""
        program = self.program(request)
        control = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=MESSAGE_LIMIT, timeout=CLOSE_S)
        await control.prepare(request)
        await program.until_gone(program.listen(control))
        with suppress(ConnectionError):
            await control.close(message=GONE.encode())
        return control

    async def carry(self, request: web.Request) -> web.WebSocketResponse:
        """Carry one connection that a sandbox waits for."""
        program, name = self.program(request), request.match_info["connection"]
        if name not in program.wanted:
            raise Refusal(404, "nobody waits for this connection any longer")
        stream = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=MESSAGE_LIMIT, timeout=CLOSE_S)
        async with self._connections:
            await stream.prepare(request)
            near, far = socket.socketpair()
            near.setblocking(False)
            if not program.give(name, near):
                near.close()
            await program.until_gone(_pass_on(stream, far))
        with suppress(ConnectionError):
            await stream.close()
        return stream


class Program:
    """The program that replaces frpc for one tunnel."""

    def __init__(self) -> None:
        self.secret = secrets.token_urlsafe(32)
        self.status = "pending"
        self.gone = asyncio.Event()  # set when the tunnel is closed
        self.wanted: dict[str, asyncio.Future[socket.socket]] = {}
        self._control: web.WebSocketResponse | None = None
        self._there = asyncio.Event()

    async def connect(self) -> socket.socket:
        """Ask the program for a connection and wait for it. Raises LookupError, ConnectionError."""
        name = secrets.token_urlsafe(16)
        given: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()
        self.wanted[name] = given
        try:
            async with asyncio.timeout(WAIT_S):
                await self._there.wait()
                assert self._control is not None
                await self._control.send_str(WantedConnection(connection=name).model_dump_json())
                return await asyncio.shield(given)
        except TimeoutError as error:
            given.add_done_callback(_close)
            raise LookupError("the program that holds this tunnel does not answer") from error
        except asyncio.CancelledError:
            given.add_done_callback(_close)
            raise
        finally:
            del self.wanted[name]
            given.cancel()

    def give(self, name: str, stream: socket.socket) -> bool:
        """Hand over a connection; return whether somebody still waits for it."""
        given = self.wanted.get(name)
        if given is None or given.done():
            return False
        given.set_result(stream)
        return True

    async def listen(self, control: web.WebSocketResponse) -> None:
        """Read the program's refusals until it disconnects; replaces an earlier connection of the same program."""
        before, self._control, self.status = self._control, control, "connected"
        self._there.set()
        if before is not None:
            with suppress(ConnectionError):
                await before.close()
        try:
            async for message in control:
                try:
                    refused = NoConnection.model_validate_json(message.data)
                except ValidationError:
                    return
                given = self.wanted.get(refused.connection)
                if given is not None and not given.done():
                    given.set_exception(ConnectionRefusedError(refused.reason))
        finally:
            if self._control is control:
                self._control, self.status = None, "disconnected"
                self._there.clear()

    async def until_gone(self, work: Coroutine[None, None, None]) -> None:
        """Run `work` until it ends or the tunnel is closed."""
        tasks = [asyncio.ensure_future(work), asyncio.ensure_future(self.gone.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _close(given: asyncio.Future[socket.socket]) -> None:
    """Close a connection that arrived after its client stopped waiting."""
    if not given.cancelled() and given.exception() is None:
        given.result().close()


async def _pass_on(stream: web.WebSocketResponse, far: socket.socket) -> None:
    """Pass bytes both ways until both directions or the web socket have ended."""
    reader, writer = await asyncio.open_connection(sock=far)
    outward = asyncio.create_task(_outward(reader, stream))
    try:
        async for message in stream:
            if message.type is WSMsgType.TEXT:  # EOF in this direction; the other may go on
                writer.write_eof()
                await outward
                return
            writer.write(message.data)
            await writer.drain()
    except OSError:  # the sandbox has ended
        return
    finally:
        outward.cancel()
        writer.close()


async def _outward(reader: asyncio.StreamReader, stream: web.WebSocketResponse) -> None:
    with suppress(OSError):
        while piece := await reader.read(PIECE):
            await stream.send_bytes(piece)
        await stream.send_str(EOF)
