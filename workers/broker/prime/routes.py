"""The service that prime-sandboxes (0.1 to 0.5) and prime-tunnel clients call, as a part of a box's gateway.

root.add_subapp(PREFIX, prime_routes(session, run_allows=("example.org:443",)))
"""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from workers.broker.interface import Session
from workers.broker.memory import MEMORY, Memory
from workers.broker.prime.commands import execute
from workers.broker.prime.control import add_control
from workers.broker.prime.files import add_files
from workers.broker.prime.ports import add_ports
from workers.broker.prime.refusals import answer_refusals
from workers.broker.prime.service import SERVICE, SPACE, Service
from workers.broker.prime.sessions import add_sessions
from workers.broker.prime.tunnels import Tunnels, add_tunnels
from workers.broker.prime.unsupported import API, add_lacking

SANDBOXES = f"{API}/sandbox"
GATEWAY = f"/gateway/{SPACE}/{{sandbox}}"


def prime_routes(
    session: Session, *, tunnels: Tunnels, run_allows: Sequence[str] = (), origin: str = ""
) -> web.Application:
    """Build the service for the sandboxes of `session` only. Mount it at PREFIX.

    `run_allows` are the hosts that the run lets sandboxes reach. `origin` is the gateway's URL as the client reaches
    it; "" takes it from the request's Host header.
    """
    app = web.Application(middlewares=[answer_refusals])
    app[SERVICE] = Service(session, run_allows, origin)
    app[MEMORY] = Memory()
    add_lacking(app)
    add_ports(app, SANDBOXES)
    add_control(app, SANDBOXES)
    add_tunnels(app, tunnels)
    _add_gateway(app)
    return app


def gateway_routes(session: Session, memory: Memory) -> web.Application:
    """Build the part of the service that works inside the sandboxes of `session`, when others create, list and end
    them.

    `memory` is the budget for its requests; several services may share one.
    """
    app = web.Application(middlewares=[answer_refusals])
    app[SERVICE], app[MEMORY] = Service(session), memory
    _add_gateway(app)
    return app


def _add_gateway(app: web.Application) -> None:
    app.router.add_post(f"{GATEWAY}/exec", execute)
    add_files(app, GATEWAY)
    add_sessions(app, GATEWAY)
