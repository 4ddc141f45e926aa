"""Ports that a client exposes on its sandboxes: HTTP at an address on the gateway of the client's own box."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Annotated, Literal

from aiohttp import web
from envhub.protocol.base import JsonObject
from pydantic import BaseModel, Field

from workers.broker.bodies import read_json
from workers.broker.interface import Held, NotThere
from workers.broker.prime.proxying import forward
from workers.broker.prime.service import PREFIX, SERVICE, Exposure
from workers.broker.prime.wishes import Short
from workers.broker.refusals import Refusal

PORTS = 100  # per sandbox
ROUTE = "/ports/{sandbox}/{port:[0-9]{1,5}}"


class ExposeRequest(BaseModel):
    port: Annotated[int, Field(ge=1, le=65535)]
    name: Short | None = None
    protocol: Literal["HTTP", "TCP", "UDP"] = "HTTP"


async def expose(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    held = service.living(request)
    asked = await read_json(request, ExposeRequest)
    if asked.protocol != "HTTP":
        raise Refusal(
            501, f"ports are exposed as HTTP here, not as {asked.protocol}: run the client inside the sandbox"
        )
    ports = service.begun(held).ports
    known = next((it for it in ports.values() if it.port == asked.port), None)
    if known is None:
        if len(ports) >= PORTS:
            raise Refusal(429, f"{PORTS} ports of this sandbox are exposed; unexpose some first")
        known = Exposure(secrets.token_hex(8), asked.port, asked.name, datetime.now(UTC))
        ports[known.id] = known
    return web.json_response(_told(request, held, known))


async def unexpose(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    if service.begun(service.known(request)).ports.pop(request.match_info["exposure"], None) is None:
        raise Refusal(404, "no such exposure")
    return web.json_response({"message": "Port is not exposed any longer"})


async def list_ports(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    held = service.known(request)
    return web.json_response({"exposures": [_told(request, held, it) for it in service.begun(held).ports.values()]})


async def list_all_ports(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    found = [_told(request, held, it) for held in service.session.all() for it in service.begun(held).ports.values()]
    return web.json_response({"exposures": found})


async def call_port(request: web.Request) -> web.StreamResponse:
    """Forward a request for an exposed address to the sandbox's port."""
    service, port = request.app[SERVICE], int(request.match_info["port"])
    held = service.session.find(request.match_info["sandbox"])
    if held is None or held.state.final:
        raise NotThere("the sandbox has ended, or never was", state=held.state if held else None)
    if all(it.port != port for it in service.begun(held).ports.values()):
        raise Refusal(404, f"port {port} of this sandbox is not exposed; expose it first")
    prefix = f"{PREFIX}/ports/{held.id}/{request.match_info['port']}"
    return await forward(request, lambda: held.connect(port), port=port, prefix=prefix)


def _told(request: web.Request, held: Held, exposure: Exposure) -> JsonObject:
    return {
        "exposure_id": exposure.id,
        "sandbox_id": held.id,
        "port": exposure.port,
        "name": exposure.name,
        "url": request.app[SERVICE].address(request, f"/ports/{held.id}/{exposure.port}"),
        "tls_socket": "",
        "protocol": "HTTP",
        "created_at": exposure.created.isoformat(),
    }


def add_ports(app: web.Application, base: str) -> None:
    """Add the routes; call this before the routes of single sandboxes, which would take "expose" for a sandbox's id."""
    app.router.add_get(f"{base}/expose/all", list_all_ports)
    app.router.add_post(f"{base}/{{sandbox}}/expose", expose)
    app.router.add_get(f"{base}/{{sandbox}}/expose", list_ports)
    app.router.add_delete(f"{base}/{{sandbox}}/expose/{{exposure}}", unexpose)
    app.router.add_route("*", ROUTE, call_port)
    app.router.add_route("*", f"{ROUTE}/{{tail:.*}}", call_port)
