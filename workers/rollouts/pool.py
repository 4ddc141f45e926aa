"""Runs several runners of one environment, each in its own box. Groups go to the least busy; dead ones are replaced.

"{gateway}" in the URLs of `Load` and `Group` stands for the interceptor's address, which only the box knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import Self

from envhub.client.telemetry.tracing import span
from envhub.protocol.runner import Described, Group, Hello, Load, RolloutDone
from envhub.protocol.runs import Failure, FailureKind

from workers.rollouts.errors import RunnerFatal, RunnerGone
from workers.rollouts.session import Runner

ROLLOUTS_A_PROCESS = 64
DEATHS_IN_A_ROW = 8  # without a finished rollout in between
KILLS_IN_A_ROW = 3  # kills from outside of runners that were loading
AGAIN_S = 0.5  # pause before the first retry after such a kill; doubles each time
OpenRunner = Callable[[int], AbstractAsyncContextManager[Runner]]


@dataclass
class Place:
    """A slot for one runner; `stack` holds its box."""

    number: int
    runner: Runner | None = None
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    promised: int = 0  # rollouts assigned to it, also while it starts
    told: Runner | None = None  # the runner whose end has been logged


class RunnerPool:
    """The pool. `open_runner(number)` makes a box with a runner; every runner gets the same `load`."""

    def __init__(self, open_runner: OpenRunner, load: Load, *, log: Callable[[str], None]) -> None:
        self.hello: Hello
        self._open = open_runner
        self._load = load
        self._log = log
        self._places = [Place(0)]
        self._apart = Place(-1)  # started when needed
        self._one = asyncio.Lock()
        self._deaths = 0

    async def __aenter__(self) -> Self:
        """Start the first runner, which reveals what is wrong with the environment. Raises RunnerFatal, RunnerGone."""
        try:
            await self._ready(self._places[0])
        except BaseException:
            await self._places[0].stack.aclose()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        closing = [place.stack.__aexit__(kind, error, None) for place in (*self._places, self._apart)]
        await asyncio.gather(*closing, return_exceptions=True)

    async def grow(self, processes: int) -> None:
        """Grow to `processes` runners, all loaded before the first rollout. Raises RunnerFatal, RunnerGone."""
        self._places += [Place(number) for number in range(len(self._places), processes)]
        for outcome in await asyncio.gather(*map(self._ready, self._places), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def describe(self) -> Described:
        """Describe the environment. Raises RunnerFatal, RunnerGone."""
        for left in reversed(range(KILLS_IN_A_ROW)):
            try:
                return await (await self._ready(self._places[0])).describe(rows=0)
            except RunnerGone as gone:
                if not (left and gone.outside):
                    raise
        raise AssertionError("unreachable: the last try returns or raises")

    async def run(
        self, group: Group, *, alone: bool = False, note_report: Callable[[int], None] = lambda rollout: None
    ) -> list[RolloutDone]:
        """Run a group; return its rollouts, at most one per index. Raises RunnerFatal, RunnerGone.

        note_report: called with a rollout's index when it is reported. alone: use a separate runner for one group at
        a time, so that if the runner dies, this group is to blame.
        """
        if alone:
            async with self._one:
                return await self._run(self._apart, group, note_report)
        place = min(self._places, key=lambda place: (place.promised, place.number))
        return await self._run(place, group, note_report)

    async def _run(self, place: Place, group: Group, note_report: Callable[[int], None]) -> list[RolloutDone]:
        place.promised += group.n
        done = []
        try:
            runner = await self._ready(place)
            policy = group.policy.model_copy(update={"base_url": at(runner, group.policy.base_url)})
            async for item in runner.run(group.model_copy(update={"policy": policy})):
                note_report(item.record.rollout)
                done.append(item)
            self._deaths = 0
        except RunnerGone:
            self._tell(place, self._deaths + 1)  # at once: nobody else may come to this place
            raise
        finally:
            place.promised -= group.n
        return done

    def _tell(self, place: Place, deaths: int) -> None:
        """Log once why a place's runner has ended."""
        runner = place.runner
        if runner is not None and not runner.alive and place.told is not runner:
            place.told = runner
            self._log(f"[runner {place.number} ended, {deaths} in a row: {str(runner.end)[:500]}]")

    async def _ready(self, place: Place) -> Runner:
        """Return the place's runner, alive and loaded."""
        async with place.lock:
            if place.runner is not None and place.runner.alive:
                return place.runner
            if place.runner is not None:
                await self._bury(place, place.runner.end)
            for left in reversed(range(KILLS_IN_A_ROW)):
                try:
                    place.runner = await self._loaded(place)
                    return place.runner
                except RunnerGone as gone:
                    await self._bury(place, gone)
                    if not (left and gone.outside):
                        raise
                await asyncio.sleep(AGAIN_S * 2 ** (KILLS_IN_A_ROW - left - 1))
        raise AssertionError("unreachable: the last try returns or raises")

    async def _loaded(self, place: Place) -> Runner:
        with span("box", {"envhub.box": place.number}):
            with span("start sandbox"):
                runner = await place.stack.enter_async_context(self._open(place.number))
            judge = at(runner, self._load.judge_base_url or "") or None
            with span("load environment"):
                self.hello = await runner.load(self._load.model_copy(update={"judge_base_url": judge}))
        return runner

    async def _bury(self, place: Place, reason: BaseException | None) -> None:
        """Remove a dead runner with its box. Raises RunnerFatal if they keep dying."""
        killed = isinstance(reason, RunnerGone) and reason.outside
        self._deaths += 1
        if place.runner is None:  # it ended before it was loaded
            self._log(f"[runner {place.number} ended, {self._deaths} in a row: {str(reason)[:500]}]")
        self._tell(place, self._deaths)
        stack, place.stack, place.runner, place.told = place.stack, AsyncExitStack(), None, None
        await stack.aclose()
        if self._deaths >= DEATHS_IN_A_ROW:
            raise RunnerFatal(
                Failure(
                    kind=FailureKind.INFRASTRUCTURE if killed else FailureKind.ENVIRONMENT,
                    code="runner_keeps_dying",
                    message=f"The environment's process ended {self._deaths} times in a row without a full rollout.",
                    hint="See the log: it exceeded its memory limit, crashed, or exited by itself.",
                )
            )


def processes_for(concurrency: int, wanted: int, cpus: int) -> int:
    """Return how many runners serve `concurrency` rollouts in flight, or `wanted` if it is not 0."""
    return wanted or max(1, min(-(-concurrency // ROLLOUTS_A_PROCESS), 2 * cpus))


def at(runner: Runner, url: str) -> str:
    """Fill in the gateway of a URL."""
    return url.replace("{gateway}", runner.gateway_url)
