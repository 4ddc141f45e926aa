"""The state that all requests of one client share: its sandboxes and what it started in each of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from aiohttp import web
from envhub.protocol.base import JsonObject

from workers.broker.interface import Held, NotThere, Session, State
from workers.broker.prime.live import LiveProcess
from workers.broker.refusals import Refusal
from workers.sandbox import FileRefused

PREFIX = "/prime"
SPACE = "box"  # the namespace in the addresses of sandboxes; it has no meaning here
HOLD_S = 1.0  # how long a status request waits for sandboxes that are not ready yet
# the same for one sandbox: its image may be pulled or built, and clients retry a bounded number of times
HOLD_ONE_S = 10.0
TOKEN_LIFE = timedelta(days=7)
KEYS_KEPT = 10_000
BEGUN_KEPT = 2000  # sandboxes; beyond this, entries of sandboxes that the session no longer knows are dropped


@dataclass
class Begun:
    """What a client started in one sandbox."""

    vm: bool = False
    shell: str = ""  # the shell of its image, once it is known
    ports: dict[str, Exposure] = field(default_factory=dict)
    live: dict[str, LiveProcess] = field(default_factory=dict)  # by the name that the client gave
    # commands without a name, by number, during their calls
    calls: dict[int, LiveProcess] = field(default_factory=dict)

    def forget(self) -> None:
        for live in self.live.values():
            live.forget()


@dataclass(frozen=True)
class Exposure:
    id: str
    port: int
    name: str | None
    created: datetime


class Service:
    """The service for one session. `run_allows` are the hosts that the run allows; `origin` is used in addresses."""

    def __init__(self, session: Session, run_allows: Sequence[str] = (), origin: str = "") -> None:
        self.session = session
        self.run_allows = tuple(run_allows)
        self._origin = origin
        self._begun: dict[str, Begun] = {}
        self.by_key: dict[str, asyncio.Task[str]] = {}  # sandbox ids by the idempotency key that made them

    def address(self, request: web.Request, path: str) -> str:
        """Return an absolute URL below the prefix, as the client reaches it."""
        return f"{self._origin or f'http://{request.host}'}{PREFIX}{path}"

    def known(self, request: web.Request) -> Held:
        """Return the sandbox that a control request names, even if it has ended. Raises Refusal."""
        sandbox_id = request.match_info["sandbox"]
        held = self.session.find(sandbox_id)
        if held is None:
            raise Refusal(404, f"Sandbox {sandbox_id[:100]} not found")
        return held

    def living(self, request: web.Request) -> Held:
        """Return the running or pending sandbox that a gateway request names. Raises NotThere, also if it has ended."""
        sandbox_id = request.match_info["sandbox"]
        held = self.session.find(sandbox_id)
        if held is None:
            raise NotThere(f"no sandbox {sandbox_id[:100]} is here", "create a new one")
        if held.state.final:
            raise NotThere(held.reason or f"the sandbox has ended ({held.state})", state=held.state)
        return held

    def begun(self, held: Held) -> Begun:
        if held.id not in self._begun and len(self._begun) >= BEGUN_KEPT:
            for key in [key for key in self._begun if self.session.find(key) is None]:
                self._begun.pop(key).forget()
        return self._begun.setdefault(held.id, Begun())

    def forget_begun(self, held: Held) -> None:
        """Drop what was started in a sandbox that has ended, but remember whether it was requested as a VM."""
        begun = self.begun(held)
        begun.forget()
        self._begun[held.id] = Begun(vm=begun.vm)

    async def shell(self, held: Held) -> str:
        """Return the path of bash if the image has it, as clients expect, else /bin/sh."""
        begun = self.begun(held)
        if not begun.shell:
            await held.ready()
            begun.shell = "/bin/sh"
            for path in (
                "/bin/bash",
                "/usr/bin/bash",
            ):  # /bin is a link in most images, and `window` follows no links
                with contextlib.suppress(FileRefused):
                    await held.window(path, 0, 1)
                    begun.shell = path
                    break
        return begun.shell

    def gateway(self, request: web.Request, held: Held) -> JsonObject:
        """Return the address and credentials for a sandbox's commands and files; clients cache it."""
        return {
            "token": "box",
            "gateway_url": self.address(request, "/gateway"),
            "user_ns": SPACE,
            "job_id": held.id,
            "sandbox_id": held.id,
            "is_vm": self.begun(held).vm,
            "expires_at": (datetime.now(UTC) + TOKEN_LIFE).isoformat(),
        }


SERVICE: web.AppKey[Service] = web.AppKey("service", Service)


async def settle(sandboxes: Sequence[Held], seconds: float = HOLD_S) -> None:
    """Wait until all sandboxes are ready or the time is over: clients ask again only after a second."""
    waiting = [asyncio.ensure_future(_ready(held)) for held in sandboxes if held.state is State.PENDING]
    if not waiting:
        return
    try:
        await asyncio.wait(waiting, timeout=seconds)
    finally:
        for task in waiting:
            task.cancel()


async def _ready(held: Held) -> None:
    with contextlib.suppress(NotThere):
        await held.ready()
