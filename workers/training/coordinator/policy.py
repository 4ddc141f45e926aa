"""The policy as the interceptors ask it: always the newest weights, every answer under the version that sampled it.

LoRA versions are served side by side and each is unloaded when its last request has ended. Full weights are exchanged
while no request runs. While the engine is away requests wait; those that its end cut off are asked again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from envhub.protocol.base import JsonObject

from workers.inference.address import EngineAddress
from workers.inference.policy_engine import EngineRefused, PolicyEngine
from workers.rollouts.interceptor.answers import Answer, Route, Upstream, UpstreamFailed

logger = logging.getLogger(__name__)
Connect = Callable[[EngineAddress, str], Upstream]  # (engine, model) -> an upstream
AGAIN_S = 0.2


@dataclass(eq=False)
class Served:
    """One version and who is asking it."""

    version: int
    model: str
    upstream: Upstream
    calls: int = 0


class VersionedPolicy:
    """An Upstream. `attach` and `detach` follow the engine's life, `advance` the learner's."""

    def __init__(self, model: str, served_name: str, connect: Connect, *, adapters: bool) -> None:
        self.model = model
        self._name = served_name
        self._connect = connect
        self._adapters = adapters
        self._engine: PolicyEngine | None = None
        self._weights: tuple[int, Path] | None = None  # the newest version and its directory
        self._current: Served | None = None
        self._open = asyncio.Event()
        self._idle = asyncio.Event()
        self._calls = 0
        self._loading = asyncio.Lock()

    @property
    def version(self) -> int:
        """The version that a request sent now is answered by."""
        return -1 if self._weights is None else self._weights[0]

    async def attach(self, engine: PolicyEngine) -> None:
        """A fresh engine: give it the newest weights, then let requests through. Raises EngineRefused."""
        async with self._loading:
            self._engine, self._current = engine, None
            if self._weights is not None:
                await self._serve(*self._weights)
                self._open.set()

    async def serving(self) -> None:
        """Wait until requests are let through. Rollouts that begin before spend their time waiting for the engine."""
        await self._open.wait()

    def detach(self) -> None:
        """The engine is gone: requests wait for the next one."""
        self._open.clear()
        self._engine = None

    async def advance(self, version: int, directory: Path) -> None:
        """Serve `version` from now on. Waits for an engine where none is there. Raises EngineRefused."""
        async with self._loading:
            self._weights = (version, directory)
            if not self._adapters and self._engine is not None:
                await self._drain()
            engine = self._engine
            if engine is None:
                return  # it has not begun, or ended while its requests were waited for: `attach` will load it
            try:
                await self._serve(version, directory)
            except EngineRefused:
                if engine is self._engine and await engine.process.healthy():
                    raise
                return  # it has ended, perhaps unnoticed yet: `attach` will load it into the next one
            self._open.set()

    async def send(self, route: Route, body: JsonObject) -> Answer:
        """Raises UpstreamFailed."""
        while True:
            await self._open.wait()
            served, engine = self._current, self._engine
            if served is None or engine is None:
                await asyncio.sleep(AGAIN_S)
                continue
            served.calls += 1
            self._calls += 1
            try:
                return replace(await served.upstream.send(route, body), policy_version=served.version)
            except UpstreamFailed:
                if engine is self._engine and await engine.process.healthy():
                    raise
                await asyncio.sleep(AGAIN_S)
            finally:
                self._release(served)

    @asynccontextmanager
    async def resting(self) -> AsyncIterator[None]:
        """The engine sleeps, its GPU memory is free, and requests wait, for as long as the block lasts.

        One that cannot sleep or wake up is ended: whoever keeps it starts it anew.
        """
        async with self._loading:
            engine = self._engine
            if engine is None:
                yield
                return
            await self._drain()
            await asyncio.gather(*background)  # an adapter must not be unloaded from memory that is gone
            slept = await or_end(engine, engine.sleep)
            yield
            if slept and engine is self._engine and await or_end(engine, engine.wake_up):
                self._open.set()

    async def _drain(self) -> None:
        self._open.clear()
        while self._calls:
            self._idle.clear()
            await self._idle.wait()

    async def _serve(self, version: int, directory: Path) -> None:
        assert self._engine is not None
        if self._adapters:
            model = f"{self._name}-v{version:06d}"
            await self._engine.load_adapter(model, directory)
        else:
            model = self._name
            if version:
                await self._engine.replace_weights(directory)
        before = self._current
        self._current = Served(version, model, self._connect(self._engine.address, model))
        if before is not None:
            self._retire(before)

    def _release(self, served: Served) -> None:
        served.calls -= 1
        self._calls -= 1
        if not self._calls:
            self._idle.set()
        self._retire(served)

    def _retire(self, served: Served) -> None:
        """Unload a version that nobody will ask again."""
        if self._adapters and not served.calls and served is not self._current and self._engine is not None:
            task = asyncio.create_task(unload(self._engine, served.model))
            background.add(task)
            task.add_done_callback(background.discard)


background: set[asyncio.Task[None]] = set()  # asyncio keeps only weak references


async def or_end(engine: PolicyEngine, tell: Callable[[], Awaitable[None]]) -> bool:
    """Whether the engine did as it was told; its process is ended if not."""
    try:
        await tell()
    except EngineRefused as error:
        logger.warning("the engine is ended: %s", error)
        await engine.process.stop(gently=False)
        return False
    return True


async def unload(engine: PolicyEngine, model: str) -> None:
    """An adapter that cannot be unloaded costs a little memory, no more."""
    try:
        await engine.unload_adapter(model)
    except EngineRefused as error:
        logger.info("adapter %s was not unloaded: %s", model, error)
