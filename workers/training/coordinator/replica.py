"""One engine of the policy: what it serves, who is asking it, and its end, which cuts all of that off."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from workers.inference.policy_engine import EngineRefused, PolicyEngine
from workers.rollouts.interceptor.answers import Upstream

T = TypeVar("T")


class Gone(EngineRefused):
    """The engine went while it was asked."""


@dataclass(eq=False)
class Served:
    """One version and who is asking it."""

    version: int
    model: str
    upstream: Upstream
    calls: int = 0


@dataclass(eq=False)
class Replica:
    """`served` is None before its first weights, and when it could not take the newest."""

    engine: PolicyEngine
    served: Served | None = None
    calls: int = 0
    gone: bool = False
    _running: set[asyncio.Task[Any]] = field(default_factory=set)

    async def unless_gone(self, call: Coroutine[Any, Any, T]) -> T:
        """What the call gives. Raises Gone as soon as the engine goes: a host that vanishes closes no connection."""
        if self.gone:
            call.close()
            raise Gone("the engine has ended")
        task = asyncio.create_task(call)
        self._running.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if self.gone and not (caller and caller.cancelling()):
                raise Gone("the engine has ended") from None
            raise
        finally:
            self._running.discard(task)

    def leave(self) -> None:
        """Nobody asks it any longer."""
        self.gone = True
        for task in self._running:
            task.cancel()
