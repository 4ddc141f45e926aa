"""Tunnels: how a client in the box lets sandboxes reach a port of its own, by the unmodified prime_tunnel.

The original runs frpc, which connects to a server on the internet. Here the box finds a program of ours in its place
(see variables.py): it says what the client waits for and stays. The address of a tunnel lies on the gateway that every
sandbox of the run has; the broker takes `Tunnels.port` to know what it leads to.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from aiohttp import web
from envhub.protocol.base import JsonObject
from pydantic import BaseModel, Field

from workers.broker.prime.bodies import read_json, whole
from workers.broker.prime.proxying import forward
from workers.broker.prime.refusals import Refusal, answer_refusals
from workers.broker.prime.wishes import Short
from workers.sandbox.interface import GATEWAY_PORT

MOST = 64  # tunnels of one client at once
LIFE = timedelta(days=7)
PATH = "/t/"  # on the gateway of a sandbox
SANDBOX_GATEWAY = f"http://127.0.0.1:{GATEWAY_PORT}"


@dataclass(frozen=True)
class Tunnel:
    id: str
    port: int
    name: str | None
    labels: tuple[str, ...]
    created: datetime


class Tunnels:
    """Those of one client."""

    def __init__(self, gateway: str = SANDBOX_GATEWAY) -> None:
        self.gateway = gateway
        self.open: dict[str, Tunnel] = {}

    def port(self, tunnel_id: str) -> int | None:
        """The port of the client's box that a tunnel leads to."""
        tunnel = self.open.get(tunnel_id)
        return tunnel.port if tunnel else None

    def told(self, tunnel: Tunnel) -> JsonObject:
        return {
            "tunnel_id": tunnel.id,
            "name": tunnel.name,
            "hostname": self.gateway.partition("://")[2],
            "url": f"{self.gateway}{PATH}{tunnel.id}",
            "local_port": tunnel.port,
            "labels": list(tunnel.labels),
            "status": "connected",
            "created_at": tunnel.created.isoformat(),
            "expires_at": (tunnel.created + LIFE).isoformat(),
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
    tunnels.open[tunnel.id] = tunnel
    server: JsonObject = {
        "frp_token": "box",
        "binding_secret": "box",
        "server_host": "127.0.0.1",
        "server_port": GATEWAY_PORT,
    }
    return web.json_response({**tunnels.told(tunnel), **server})


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
    if request.app[TUNNELS].open.pop(request.match_info["tunnel"], None) is None:
        raise Refusal(404, "Tunnel not found")
    return web.json_response({"message": "Tunnel deleted"})


async def delete_many(request: web.Request) -> web.Response:
    tunnels = request.app[TUNNELS]
    asked = await read_json(request, TunnelsRequest)
    named, wanted = list(dict.fromkeys(asked.tunnel_ids or [])), set(asked.labels or [])
    by_label = [it.id for it in tunnels.open.values() if wanted and wanted <= set(it.labels)]
    by_status = list(tunnels.open) if asked.status == "connected" and not wanted else []
    succeeded = [name for name in dict.fromkeys([*named, *by_label, *by_status]) if tunnels.open.pop(name, None)]
    failed = [{"tunnel_id": name, "error": "Tunnel not found"} for name in named if name not in succeeded]
    return web.json_response({"succeeded": succeeded, "failed": failed, "message": f"{len(succeeded)} tunnels deleted"})


def tunnel_gateway(tunnels: Tunnels, connect: Callable[[int], Awaitable[socket.socket]]) -> web.Application:
    """What the box itself finds at the addresses of its tunnels, so that they mean the same to it as to its sandboxes.
    Mount it at PATH without the slash at its end; `connect` leads to ports of the box."""

    async def call(request: web.Request) -> web.StreamResponse:
        name = request.match_info["tunnel"]
        port = tunnels.port(name)
        if port is None:
            raise Refusal(404, "this tunnel is closed")
        return await forward(request, lambda: connect(port), port=port, prefix=f"{PATH}{name}")

    app = web.Application(middlewares=[answer_refusals])
    app.router.add_route("*", "/{tunnel}", call)
    app.router.add_route("*", "/{tunnel}/{tail:.*}", call)
    return app


def add_tunnels(app: web.Application, base: str) -> None:
    app.router.add_post(base, create)
    app.router.add_get(base, list_tunnels)
    app.router.add_delete(base, delete_many)
    app.router.add_get(f"{base}/{{tunnel}}", get)
    app.router.add_delete(f"{base}/{{tunnel}}", delete)
