"""Selects the sandbox for a worker's runs from its settings."""

from __future__ import annotations

import asyncio

from envhub.protocol.runs import FailureKind

from workers.runs.errors import RunFailed
from workers.sandbox import EngineAway, Sandbox, SandboxError, backends
from workers.settings import WorkerEnvironment

PATIENCE_S, PAUSE_S = 30.0, 0.5  # an operator's service manager starts an engine's daemon again within seconds


async def chosen_sandbox(settings: WorkerEnvironment, patience_s: float = PATIENCE_S) -> Sandbox:
    """Return the chosen sandbox, and wait for an engine's daemon that is being started again.

    Raises RunFailed, which says what to do.
    """
    deadline = asyncio.get_running_loop().time() + patience_s
    while True:
        try:
            return backends(
                settings.sandboxes,
                settings.folder("boxes"),
                accept_no_isolation=settings.sandbox_accept_no_isolation,
                engine=settings.sandbox_engine,
            )
        except SandboxError as error:
            if not isinstance(error, EngineAway) or asyncio.get_running_loop().time() > deadline:
                raise RunFailed.because(FailureKind.INFRASTRUCTURE, error.code, error.message, error.hint) from error
        await asyncio.sleep(PAUSE_S)
