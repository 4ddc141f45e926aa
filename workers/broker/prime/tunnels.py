"""Tunnels, by which a client using the unmodified prime_tunnel lets sandboxes reach one of its own ports.

The original runs frpc, which connects to a server on the internet. Here a program of ours takes its place: in a box it
prints what the client waits for and sleeps (see variables.py), outside it holds the connections (see
outside_tunnels.py). A tunnel's address is on the gateway that every sandbox of the session has.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Literal

from aiohttp import web
from envhub.protocol.base import JsonObject
from pydantic import BaseModel, Field

from workers.broker.bodies import read_json, whole
from workers.broker.home import Home
from workers.broker.prime.proxying import forward
from workers.broker.prime.refusals import answer_refusals
from workers.broker.prime.service import SERVICE
from workers.broker.prime.unsupported import API
from workers.broker.prime.wishes import Short
from workers.broker.refusals import Refusal
from workers.broker.relay import Streams
from workers.sandbox.interface import GATEWAY_PORT

MOST = 64  # at once, per client
LIFE = timedelta(days=7)
PATH = "/t/"  # path prefix on a sandbox's gateway
SANDBOX_GATEWAY = f"http://127.0.0.1:{GATEWAY_PORT}"


@dataclass(frozen=True)
class Tunnel:
    id: str
    port: int
    name: str | None
    labels: tuple[str, ...]
    created: datetime


class Tunnels(ABC):
    """The open tunnels of one client."""

    def __init__(self) -> None:
        self.open: dict[str, Tunnel] = {}

    @abstractmethod
    async def connect(self, tunnel: Tunnel) -> socket.socket:
        """Connect to the client's port behind the tunnel. Raises OSError, LookupError, SandboxError."""

    @abstractmethod
    def status(self, tunnel: Tunnel) -> str:
        """Return the tunnel's status, in the client's vocabulary."""

    @abstractmethod
    def server(self, address: str, tunnel: Tunnel) -> JsonObject:
        """Return what the program that replaces frpc needs. `address` is the tunnel's URL as the client reaches it."""

    def routes(self) -> Sequence[web.RouteDef]:
        """Return further routes that these tunnels need."""
        return ()

    def add(self, tunnel: Tunnel) -> None:
        """Open a tunnel: its address works from now on."""
        self.open[tunnel.id] = tunnel

    def close(self, tunnel_id: str) -> bool:
        """Close a tunnel; return whether it was open."""
        return self.open.pop(tunnel_id, None) is not None

    def find(self, tunnel_id: str) -> Tunnel:
        """Return an open tunnel. Raises LookupError."""
        if tunnel_id not in self.open:
            raise LookupError("this tunnel is closed")
        return self.open[tunnel_id]

    async def reach(self, rest: str) -> Streams:
        """Connect to the tunnel named after PATH in a sandbox's request; a route of its gateway.

        Raises as `connect` does.
        """
        tunnel = self.find(rest.partition("/")[0].partition("?")[0])
        return await asyncio.open_connection(sock=await self.connect(tunnel))

    def told(self, tunnel: Tunnel) -> JsonObject:
        return {
            "tunnel_id": tunnel.id,
            "name": tunnel.name,
            "hostname": SANDBOX_GATEWAY.partition("://")[2],
            "url": f"{SANDBOX_GATEWAY}{PATH}{tunnel.id}",
            "local_port": tunnel.port,
            "labels": list(tunnel.labels),
            "status": self.status(tunnel),
            "created_at": tunnel.created.isoformat(),
            "expires_at": (tunnel.created + LIFE).isoformat(),
        }


class BoxTunnels(Tunnels):
    """The tunnels of a client in the box of `home`."""

    def __init__(self, home: Home) -> None:
        super().__init__()
        self._home = home

    async def connect(self, tunnel: Tunnel) -> socket.socket:
        """Connect to a port of the box. Raises OSError, SandboxError."""
        return await self._home.connect(tunnel.port)

    def status(self, tunnel: Tunnel) -> str:
        """Return "connected": a box and its sandboxes have no connection between them that could be lost."""
        return "connected"

    def server(self, address: str, tunnel: Tunnel) -> JsonObject:
        """Return placeholder values: the program that replaces frpc in a box connects to nothing."""
        return {
            "frp_token": "box",
            "binding_secret": "box",
            "server_host": "127.0.0.1",
            "server_port": GATEWAY_PORT,
        }


TUNNELS: web.AppKey[Tunnels] = web.AppKey("tunnels", Tunnels)


class TunnelRequest(BaseModel):
    local_port: Annotated[int, Field(ge=1, le=65535)]
    name: Short | None = None
    labels: Annotated[list[Short], Field(max_length=100)] = []
    http_user: Short | None = None


class TunnelsRequest(BaseModel):
    tunnel_ids: Annotated[list[Short], Field(max_length=1000)] | None = None
    labels: Annotated[list[Short], Field(max_length=100)] | None = None
    status: Literal["pending", "connected", "disconnected", "expired", "terminated"] | None = None
    all_users: bool = False


async def create(request: web.Request) -> web.Response:
    tunnels = request.app[TUNNELS]
    asked = await read_json(request, TunnelRequest)
    if asked.http_user:
        raise Refusal(501, "tunnels have no password here, only this run's sandboxes reach them: leave http_user out")
    if len(tunnels.open) >= MOST:
        raise Refusal(400, f"the maximum number of tunnels ({MOST}) is open; stop some first")
    name = secrets.token_hex(8)
    tunnel = Tunnel(name, asked.local_port, asked.name, tuple(asked.labels), datetime.now(UTC))
    tunnels.add(tunnel)
    address = request.app[SERVICE].address(request, f"{API}/tunnel/{tunnel.id}")
    return web.json_response({**tunnels.told(tunnel), **tunnels.server(address, tunnel)})


async def list_tunnels(request: web.Request) -> web.Response:
    tunnels = request.app[TUNNELS]
    page = whole(request, "page", 1, least=1, most=1_000_000)
    per_page = whole(request, "perPage", 50, least=1, most=100)
    found = [tunnels.told(tunnel) for tunnel in tunnels.open.values()]
    return web.json_response(
        {
            "tunnels": found[(page - 1) * per_page : page * per_page],
            "total": len(found),
            "page": page,
            "per_page": per_page,
            "has_next": page * per_page < len(found),
        }
    )


async def get(request: web.Request) -> web.Response:
    tunnels = request.app[TUNNELS]
    tunnel = tunnels.open.get(request.match_info["tunnel"])
    if tunnel is None:
        raise Refusal(404, "Tunnel not found")
    return web.json_response(tunnels.told(tunnel))


async def delete(request: web.Request) -> web.Response:
    if not request.app[TUNNELS].close(request.match_info["tunnel"]):
        raise Refusal(404, "Tunnel not found")
    return web.json_response({"message": "Tunnel deleted"})


async def delete_many(request: web.Request) -> web.Response:
    tunnels = request.app[TUNNELS]
    asked = await read_json(request, TunnelsRequest)
    named, wanted = list(dict.fromkeys(asked.tunnel_ids or [])), set(asked.labels or [])
    by_label = [it.id for it in tunnels.open.values() if wanted and wanted <= set(it.labels)]
    by_status = [it.id for it in tunnels.open.values() if tunnels.status(it) == asked.status and not wanted]
    succeeded = [name for name in dict.fromkeys([*named, *by_label, *by_status]) if tunnels.close(name)]
    failed = [{"tunnel_id": name, "error": "Tunnel not found"} for name in named if name not in succeeded]
    return web.json_response({"succeeded": succeeded, "failed": failed, "message": f"{len(succeeded)} tunnels deleted"})


def tunnel_gateway(tunnels: Tunnels) -> web.Application:
    """Serve the tunnels' addresses to the box itself, so that they work there as in its sandboxes.

    Mount it at PATH without the trailing slash.
    """

    async def call(request: web.Request) -> web.StreamResponse:
        try:
            tunnel = tunnels.find(request.match_info["tunnel"])
        except LookupError as error:
            raise Refusal(404, str(error)) from error
        connect = partial(tunnels.connect, tunnel)
        return await forward(request, connect, port=tunnel.port, prefix=f"{PATH}{tunnel.id}")

    app = web.Application(middlewares=[answer_refusals])
    app.router.add_route("*", "/{tunnel}", call)
    app.router.add_route("*", "/{tunnel}/{tail:.*}", call)
    return app


def add_tunnels(app: web.Application, tunnels: Tunnels) -> None:
    app[TUNNELS], base = tunnels, f"{API}/tunnel"
    app.router.add_routes(tunnels.routes())
    app.router.add_post(base, create)
    app.router.add_get(base, list_tunnels)
    app.router.add_delete(base, delete_many)
    app.router.add_get(f"{base}/{{tunnel}}", get)
    app.router.add_delete(f"{base}/{{tunnel}}", delete)
