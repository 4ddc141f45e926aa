"""The life of one sandbox: it waits for a ticket and its image, runs in a box, and ends with a recorded reason."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from workers.broker.interface import NotThere, State, Wish
from workers.broker.limits import BrokerLimits
from workers.broker.surroundings import Surroundings, nothing
from workers.broker.tickets import Tickets
from workers.images.interface import Image, ImageLacking, Images
from workers.sandbox import (
    Box,
    BoxExpired,
    BoxGone,
    BoxKilled,
    BoxOutOfMemory,
    BoxSpec,
    Destination,
    Limits,
    NotEnforceable,
    Sandbox,
)

SHORTEST_PAUSE_S = 0.05


@dataclass(frozen=True)
class Host:
    """What the broker needs to create sandboxes on this host."""

    sandbox: Sandbox
    images: Images
    tickets: Tickets
    limits: BrokerLimits
    surroundings: Surroundings = nothing
    masked: Callable[[str], str] = str  # replaces the run's secrets in what is recorded


class Life:
    """The life of one sandbox; it starts at once, as a task. `born` gets the box before any client does."""

    def __init__(self, host: Host, wish: Wish, rollout: str, born: Callable[[Box], Awaitable[None]]) -> None:
        self.state = State.PENDING
        self.reason = ""
        self.waits_for = ""  # while it is pending; kept if it ended so
        self.lacking = ""  # the image that could not be obtained
        self.error: Exception | None = None  # why it failed, if that is the fault of the wish
        self.by_host = False  # whether the host ended it, not somebody in the run
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.image: Image | None = None
        self.allow: set[Destination] = set()  # hosts it may reach
        self.limits: Limits = host.limits.of(wish)
        if not host.sandbox.facts.limits_cpu:  # the worker shows that CPU is not limited; clients still read a number
            self.limits = replace(self.limits, cpus=None)
        self._host = host
        self._wish = wish
        self._rollout = rollout
        self._born = born
        self._box: Box | None = None
        self._ready = asyncio.Event()
        self._over = asyncio.Event()
        self._busy = 0
        self._used = time.monotonic()
        self._task = asyncio.create_task(self._live())

    @property
    def workdir(self) -> str:
        """The working directory of the image."""
        return self.image.workdir if self.image is not None else "/"

    async def ready(self) -> Box:
        """Wait for the box and return it. Raises NotThere if the sandbox has ended."""
        await self._ready.wait()
        if self._box is None or self.state.final:
            ended = f"the sandbox has ended ({self.state.value.replace('_', ' ')})"
            raise NotThere(ended, self.reason, self.state) from self.error
        return self._box

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Box]:
        """Yield the running box and count the sandbox as busy meanwhile.

        Raises NotThere, also if the box ends during use.
        """
        box = await self.ready()
        self.begin_work()
        try:
            yield box
        except BoxGone as error:
            await asyncio.wait([self._task])
            raise NotThere(f"the sandbox has ended while it was used: {self.reason}", "", self.state) from error
        finally:
            self.end_work()

    def begin_work(self) -> None:
        """Mark the sandbox as busy, so that its idle time does not run."""
        self._busy += 1

    def end_work(self) -> None:
        self._busy -= 1
        self._used = time.monotonic()

    async def end(self, state: State, reason: str) -> None:
        """End the sandbox and return once everything in it has ended."""
        self._finish(state, reason)
        if self._box is None and not self._task.cancelling():  # a second time would cut off its tidying up
            self._task.cancel()  # it still waits for a ticket, its image or its box
        await asyncio.wait([self._task])

    async def _live(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                box = await self._make(stack)
                try:
                    await self._born(box)
                except BoxGone:
                    return self._fell(await box.ended())
                self._ready.set()
                await self._until_over(box)
        except ImageLacking as error:
            self.lacking, self.error = error.name, error
            self._finish(State.FAILED, str(error))
        except BoxGone as error:  # while it began
            self._fell(error)
        except NotEnforceable as error:
            self.error = error
            self._finish(State.FAILED, str(error))
        except Exception as error:  # noqa: BLE001  the hub, the disk or a bug of ours: nobody else would report it
            self.by_host = not self.state.final  # if it was already final, only the cleanup after its end failed
            self._finish(State.FAILED, str(error) or type(error).__name__)
        finally:
            self._finish(State.STOPPED, "")

    async def _make(self, stack: AsyncExitStack) -> Box:
        room = self._host.limits.room_for(self._wish)
        ticket = await self._host.tickets.take(room, self._waits, self._rollout)
        stack.callback(os.close, ticket)
        self._waits(f"its image {self._wish.image}")
        self.image = await stack.enter_async_context(self._host.images.using(self._wish.image))
        self._waits("its box")
        around = await stack.enter_async_context(self._host.surroundings(self._wish, self._rollout))
        self.allow = around.allow
        spec = BoxSpec(
            binds=around.binds,
            root=self.image.root,
            sockets=around.sockets,
            network=around.network,
            allow=around.allow,
            outside=around.outside,
            limits=self.limits,
            env={**self.image.env, **around.env, **self._wish.env},
        )
        self._box = await stack.enter_async_context(self._host.sandbox.create(spec))
        self.started = datetime.now(UTC)
        self._used = time.monotonic()
        if not self.state.final:
            self.state = State.RUNNING
        self._waits("")
        return self._box

    def _waits(self, reason: str) -> None:
        self.waits_for = reason

    async def _until_over(self, box: Box) -> None:
        over = asyncio.create_task(self._over.wait())
        gone = asyncio.create_task(box.ended())
        end = time.monotonic() + self.limits.lifetime_seconds
        try:
            while not (over.done() or gone.done()):
                now = time.monotonic()
                idle = (now if self._busy else self._used) + self._wish.idle_s if self._wish.idle_s else end
                if now >= min(end, idle):
                    self._finish(State.TIMED_OUT, f"its {'lifetime' if now >= end else 'idle time'} was over")
                    return
                pause = max(SHORTEST_PAUSE_S, min(end, idle) - now)
                await asyncio.wait([over, gone], timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            if not over.done():
                self._fell(gone.result())
        finally:
            over.cancel()
            gone.cancel()

    def _fell(self, error: BoxGone) -> None:
        if isinstance(error, BoxOutOfMemory):
            self._finish(State.OUT_OF_MEMORY, str(error))
        elif isinstance(error, BoxExpired):
            self._finish(State.TIMED_OUT, "its lifetime was over")
        else:
            self.by_host = isinstance(error, BoxKilled)
            self._finish(State.FAILED, error.message)

    def _finish(self, state: State, reason: str) -> None:
        if not self.state.final:
            self.state, self.reason, self.ended = state, reason, datetime.now(UTC)
        self._ready.set()
        self._over.set()
