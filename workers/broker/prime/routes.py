"""The service that prime-sandboxes (0.1 to 0.5) and prime-tunnel speak with, as a part of the gateway of a box.

root.add_subapp(PREFIX, prime_routes(session, run_allows=("example.org:443",)))
"""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from workers.broker.interface import Session
from workers.broker.prime.commands import execute
from workers.broker.prime.control import add_control
from workers.broker.prime.files import add_files
from workers.broker.prime.lacking import API, add_lacking
from workers.broker.prime.memory import MEMORY, Memory
from workers.broker.prime.ports import add_ports
from workers.broker.prime.refusals import answer_refusals
from workers.broker.prime.service import SERVICE, SPACE, Service
from workers.broker.prime.sessions import add_sessions
from workers.broker.prime.tunnels import Tunnels, add_tunnels

SANDBOXES = f"{API}/sandbox"
GATEWAY = f"/gateway/{SPACE}/{{sandbox}}"


def prime_routes(
    session: Session, *, tunnels: Tunnels, run_allows: Sequence[str] = (), origin: str = ""
) -> web.Application:
    """The sandboxes of `session`, and no others. `run_allows`: the hosts that the run lets them reach.

    `origin` is the gateway as the client reaches it; "": as its requests say. Mount it at PREFIX.
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
    """What is done inside the sandboxes of `session` alone, where somebody else makes, lists and ends them. `memory` is
    for its requests, and those of others that share it."""
    app = web.Application(middlewares=[answer_refusals])
    app[SERVICE], app[MEMORY] = Service(session), memory
    _add_gateway(app)
    return app


def _add_gateway(app: web.Application) -> None:
    app.router.add_post(f"{GATEWAY}/exec", execute)
    add_files(app, GATEWAY)
    add_sessions(app, GATEWAY)
