"""One engine of the policy: what it serves, its running requests, and its end, which interrupts them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from workers.inference.policy_engine import EngineRefused, PolicyEngine
from workers.rollouts.interceptor.answers import Upstream

T = TypeVar("T")


class Gone(EngineRefused):
    """The engine went away during a request."""


@dataclass(eq=False)
class Served:
    """A served version and the number of its running requests."""

    version: int
    model: str
    upstream: Upstream
    calls: int = 0


@dataclass(eq=False)
class Replica:
    """An engine. `served` is None before its first weights, or if it could not take the newest.

    limit_s: how long an extra engine may take for one step of getting weights; None: it is one of the run's own.
    """

    engine: PolicyEngine
    limit_s: float | None = None
    served: Served | None = None
    calls: int = 0
    joined: bool = False  # gets new versions when they appear
    gone: bool = False
    _running: set[asyncio.Task[Any]] = field(default_factory=set)

    @property
    def extra(self) -> bool:
        """Whether the run can do without it."""
        return self.limit_s is not None

    async def in_time(self, call: Coroutine[Any, Any, T]) -> T:
        """Return the result of a call that gives it weights. Raises Gone, and EngineRefused after `limit_s`."""
        try:
            async with asyncio.timeout(self.limit_s):
                return await self.unless_gone(call)
        except TimeoutError:
            raise EngineRefused(f"it took longer than {self.limit_s:g} s") from None

    async def unless_gone(self, call: Coroutine[Any, Any, T]) -> T:
        """Return the call's result.

        Raises Gone as soon as the engine goes away: a vanished host closes no connection.
        """
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
        """Mark the engine as gone and cancel its requests."""
        self.gone = True
        for task in self._running:
            task.cancel()
