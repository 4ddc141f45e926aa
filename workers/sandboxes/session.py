"""Where a sandbox of a user comes from, and those that programs outside have beside it: a broker of their own, with the
images and the network that its hub grants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from envhub.protocol.sandboxes.sandboxes import SiblingLimits

from workers.broker.interface import Held, Session, TooMany, Wish
from workers.broker.limits import BrokerLimits
from workers.broker.prime import TUNNEL_PATH, OutsideTunnels
from workers.broker.relay import Route
from workers.broker.room import Room
from workers.rollouts.interceptor.data import open_data
from workers.rollouts.outside.repositories import WithRepositories
from workers.rollouts.outside.server import OutsideServer
from workers.rollouts.sandbox_choice import chosen_sandbox
from workers.rollouts.sandboxes import limits, run_sandboxes
from workers.runs.execution import Job
from workers.sandbox import socket_folder

from .models import ROUTE, Models


@dataclass(frozen=True)
class Sessions:
    """The user's own, and of programs outside."""

    own: Session
    siblings: Session | None
    tunnels: OutsideTunnels  # of those programs, which their sandboxes reach


@dataclass(frozen=True)
class OnlyOne(Session):
    """The user's own, by the id that its hub gave it."""

    held: Held
    sandbox_id: str

    async def create(self, wish: Wish, *, rollout: str = "") -> Held:
        """Raises TooMany: others are the hub's to make."""
        raise TooMany("there is one sandbox here")

    def find(self, sandbox_id: str) -> Held | None:
        return self.held if sandbox_id == self.sandbox_id else None

    def all(self) -> Sequence[Held]:
        return (self.held,)


@asynccontextmanager
async def open_sessions(
    job: Job, allow: Sequence[str], models: Models | None = None, siblings: SiblingLimits | None = None
) -> AsyncIterator[Sessions]:
    """For the sandbox of a run, which reaches the hosts `allow` at most, and finds at all others what the boxes of runs
    find there: the hub's files, packages, repositories. `models` answer it, too. Raises SandboxError."""
    sandbox = await chosen_sandbox(job.settings)
    within = with_siblings(limits(job.settings), siblings) if siblings else None
    async with (
        open_data(job.run) as data,
        run_sandboxes(job, sandbox, allow=allow, shown=siblings is not None, within=within) as sandboxes,
    ):
        outside = OutsideServer(WithRepositories(sandboxes.repositories, data.files()), job.lease.log)
        async with AsyncExitStack() as stack:
            routes, variables = dict[str, Route](), dict[str, str]()
            if models is not None:
                socket = stack.enter_context(socket_folder(job.settings.folder("boxes"))) / "models.sock"
                await stack.enter_async_context(models.serve(socket))
                routes[ROUTE] = Route(lambda rest: asyncio.open_unix_connection(socket), 0)
                variables.update(models.variables)
            own = await stack.enter_async_context(sandboxes.for_user(outside, routes, variables))
            beside, tunnels = None, OutsideTunnels()
            if siblings:
                reached = {**routes, TUNNEL_PATH.strip("/"): Route(tunnels.reach, 2, upgrades=True)}
                beside = await stack.enter_async_context(sandboxes.for_user(outside, reached, variables))
            yield Sessions(own, beside, tunnels)


def with_siblings(worker: BrokerLimits, siblings: SiblingLimits) -> BrokerLimits:
    """What the worker allows and, of all of them, what the hub allows its users."""
    return replace(
        worker,
        at_once=min(worker.at_once, 1 + siblings.at_once),
        of_a_rollout=Room(),
        most_cpus=min(worker.most_cpus, siblings.cpus),
        most_memory_mb=min(worker.most_memory_mb, siblings.memory_mb),
        most_disk_mb=min(worker.most_disk_mb, siblings.disk_mb),
        more="begin with more (hub sandbox serve --at-once)",
    )
