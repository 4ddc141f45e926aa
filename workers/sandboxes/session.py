"""Where a sandbox of a user comes from: a broker of its own, with the images and the network that its hub grants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from workers.broker.interface import Session
from workers.broker.relay import Route
from workers.rollouts.interceptor.data import open_data
from workers.rollouts.outside.repositories import WithRepositories
from workers.rollouts.outside.server import OutsideServer
from workers.rollouts.sandbox_choice import chosen_sandbox
from workers.rollouts.sandboxes import run_sandboxes
from workers.runs.execution import Job
from workers.sandbox import socket_folder

from .models import ROUTE, Models


@asynccontextmanager
async def open_session(job: Job, allow: Sequence[str], models: Models | None = None) -> AsyncIterator[Session]:
    """A session for the sandbox of a run, which reaches the hosts `allow` at most, and finds at all others what the
    boxes of runs find there: the hub's files, packages, repositories. `models` answer it, too. Raises SandboxError."""
    sandbox = chosen_sandbox(job.settings)
    async with (
        open_data(job.run) as data,
        run_sandboxes(job, sandbox, allow=allow, shown=False) as sandboxes,
    ):
        outside = OutsideServer(WithRepositories(sandboxes.repositories, data.files()), job.lease.log)
        async with AsyncExitStack() as stack:
            routes, variables = dict[str, Route](), dict[str, str]()
            if models is not None:
                socket = stack.enter_context(socket_folder(job.settings.folder("boxes"))) / "models.sock"
                await stack.enter_async_context(models.serve(socket))
                routes[ROUTE] = Route(lambda rest: asyncio.open_unix_connection(socket), 0)
                variables.update(models.variables)
            yield await stack.enter_async_context(sandboxes.for_user(outside, routes, variables))
