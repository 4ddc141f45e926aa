"""The policy as interceptors call it: they always get the newest weights, and every answer names the version that
sampled it.

LoRA versions are served side by side, and each is unloaded after its last request. Full weights are replaced while no
request runs. Without an engine, requests wait; requests that an engine's end interrupted are sent again. Engines come
and go (one on a single host, replicas on several); each gets the newest weights before its first request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from envhub.protocol.base import JsonObject
from envhub.protocol.runs import EngineCounts

from workers.inference.address import EngineAddress
from workers.inference.policy_engine import EngineRefused, PolicyEngine
from workers.rollouts.interceptor.answers import Answer, Route, Upstream, UpstreamFailed
from workers.training.coordinator.replica import Gone, Replica, Served
from workers.training.coordinator.routing import PrefixRouter

logger = logging.getLogger(__name__)
Connect = Callable[[EngineAddress, str], Upstream]  # called with an engine and a model, returns an upstream
AGAIN_S = 0.2


class VersionedPolicy:
    """An Upstream. `attach` and `detach` follow an engine's life, `advance` the learner's progress."""

    def __init__(self, model: str, served_name: str, connect: Connect, *, adapters: bool) -> None:
        self.model = model
        self._name = served_name
        self._connect = connect
        self._adapters = adapters
        self._replicas: dict[PolicyEngine, Replica] = {}
        self._router = PrefixRouter()
        self._weights: tuple[int, Path] | None = None  # the newest version and its directory
        self._open = asyncio.Event()
        self._idle = asyncio.Event()
        self._calls = 0
        self._loading = asyncio.Lock()

    @property
    def version(self) -> int:
        """The version that would answer a request sent now."""
        return -1 if self._weights is None else self._weights[0]

    @property
    def engines(self) -> int:
        """How many engines answer."""
        return sum(replica.served is not None for replica in self._replicas.values())

    def counts(self, wanted: int) -> EngineCounts:
        """Return the engines by state.

        wanted: how many of its own the run keeps; those that do not serve are being started.
        """
        serving = {replica: replica.served.version for replica in self._replicas.values() if replica.served is not None}
        behind = self.version - min(serving.values(), default=self.version)
        own = sum(not replica.extra for replica in serving)
        return EngineCounts(starting=max(0, wanted - own), serving=len(serving), behind=behind)

    async def attach(self, engine: PolicyEngine, *, limit_s: float | None = None) -> None:
        """Give a new engine the newest weights, then let requests through. Raises EngineRefused.

        limit_s: for an extra engine, how long each step of getting weights may take, now and later.
        """
        replica = self._replicas[engine] = Replica(engine, limit_s)
        await self._bring_newest(replica)
        async with self._loading:
            replica.joined = True
            if self._weights is not None:
                await self._serve(replica, *self._weights)
                self._open.set()

    async def serving(self) -> None:
        """Wait until requests are let through.

        Rollouts that begin earlier would spend their time limit waiting for the engine.
        """
        await self._open.wait()

    def detach(self, engine: PolicyEngine) -> None:
        """Drop an engine that has ended: its requests go to another one or wait for the next."""
        replica = self._replicas.pop(engine, None)
        if replica is not None:
            replica.leave()
        if not self.engines:
            self._open.clear()

    async def advance(self, version: int, directory: Path) -> None:
        """Serve `version` from now on, or as soon as there is an engine.

        An engine that refuses it is ended. Raises EngineRefused if no engine takes it and one of the run's own refuses.
        """
        async with self._loading:
            self._weights = (version, directory)
            if not self._adapters and self._replicas:
                await self._drain()
            # an engine that comes later gets it from `attach`
            replicas = [replica for replica in self._replicas.values() if replica.joined]
            refused: list[tuple[Replica, EngineRefused]] = []
            serving = (self._serve(replica, version, directory) for replica in replicas)
            for replica, error in zip(replicas, await asyncio.gather(*serving, return_exceptions=True), strict=True):
                if isinstance(error, EngineRefused):
                    replica.served = None
                    refused.append((replica, error))
                elif error is not None:
                    raise error
            if self.engines:
                self._open.set()
            for replica, error in refused:
                process = replica.engine.process
                if replica.gone or not process.alive:
                    continue
                if not self.engines and not replica.extra and await process.healthy():
                    raise error
                logger.warning("an engine did not take version %s and is ended: %s", version, error)
                await process.stop(gently=False)  # its keeper starts it again

    async def send(self, route: Route, body: JsonObject) -> Answer:
        """Send a request to an engine, again if the engine goes away. Raises UpstreamFailed."""
        failed: Replica | None = None
        while True:
            await self._open.wait()
            replica = self._pick(body, failed)
            if replica is None or replica.served is None:
                await asyncio.sleep(AGAIN_S)
                continue
            served = replica.served
            served.calls += 1
            replica.calls += 1
            self._calls += 1
            try:
                answer = await replica.unless_gone(served.upstream.send(route, body))
                return replace(answer, policy_version=served.version)
            except Gone:
                await asyncio.sleep(AGAIN_S)
            except UpstreamFailed:
                if not replica.gone and await replica.engine.process.healthy():
                    raise
                failed = replica
                await asyncio.sleep(AGAIN_S)
            finally:
                self._release(replica, served)

    @asynccontextmanager
    async def resting(self) -> AsyncIterator[None]:
        """Put the only engine to sleep for the duration of the block: its GPU memory is free and requests wait.

        An engine that fails to sleep or wake up is ended; its keeper starts it again.
        """
        async with self._loading:
            engine = next(iter(self._replicas), None)
            if engine is None:
                yield
                return
            await self._drain()
            await asyncio.gather(*background)  # an adapter must not be unloaded from memory that is gone
            slept = await or_end(engine, engine.sleep)
            yield
            if slept and engine in self._replicas and await or_end(engine, engine.wake_up):
                self._open.set()

    async def _drain(self) -> None:
        self._open.clear()
        while self._calls:
            self._idle.clear()
            await self._idle.wait()

    def _pick(self, body: JsonObject, failed: Replica | None) -> Replica | None:
        """Choose the replica to ask. `failed` just failed, and is asked again only if there is no other."""
        serving = [replica for replica in self._replicas.values() if replica.served is not None]
        others = [replica for replica in serving if replica is not failed] or serving
        if len(others) < 2:
            return others[0] if others else None
        return self._router.pick(body, {replica: replica.calls for replica in others})

    async def _bring_newest(self, replica: Replica) -> None:
        """Copy the newest weights to a new engine's host. `advance` does not wait for this. Raises EngineRefused."""
        while (weights := self._weights) is not None:
            try:
                await replica.in_time(replica.engine.bring(weights[1]))
                return
            except EngineRefused:
                if replica.extra or weights is self._weights:
                    raise  # otherwise the learner may have removed them meanwhile

    async def _serve(self, replica: Replica, version: int, directory: Path) -> None:
        engine = replica.engine
        if self._adapters:
            model = f"{self._name}-v{version:06d}"
            await replica.in_time(engine.load_adapter(model, directory))
        else:
            model = self._name
            if version:
                await replica.in_time(engine.replace_weights(directory))
        before = replica.served
        replica.served = Served(version, model, self._connect(engine.address, model))
        if before is not None:
            self._retire(replica, before)

    def _release(self, replica: Replica, served: Served) -> None:
        served.calls -= 1
        replica.calls -= 1
        self._calls -= 1
        if not self._calls:
            self._idle.set()
        self._retire(replica, served)

    def _retire(self, replica: Replica, served: Served) -> None:
        """Unload a version that will get no more requests."""
        if self._adapters and not served.calls and served is not replica.served and not replica.gone:
            task = asyncio.create_task(unload(replica.engine, served.model))
            background.add(task)
            task.add_done_callback(background.discard)


background: set[asyncio.Task[None]] = set()  # asyncio keeps only weak references to tasks


async def or_end(engine: PolicyEngine, tell: Callable[[], Awaitable[None]]) -> bool:
    """Return whether the engine did as told; if it did not, end its process."""
    try:
        await tell()
    except EngineRefused as error:
        logger.warning("the engine is ended: %s", error)
        await engine.process.stop(gently=False)
        return False
    return True


async def unload(engine: PolicyEngine, model: str) -> None:
    """Unload an adapter. Failure is only logged, since it costs no more than a little memory."""
    try:
        await engine.unload_adapter(model)
    except EngineRefused as error:
        logger.info("adapter %s was not unloaded: %s", model, error)
