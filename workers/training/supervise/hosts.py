"""The coordinator's side of a run on a cluster: it keeps the driver, and presents the engines there to the policy."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from envhub.protocol.runs import FailureKind

from workers.inference.address import EngineAddress
from workers.inference.policy_engine import EngineDied, EngineRefused, PolicyEngine
from workers.inference.process import answers
from workers.runs.children import Children
from workers.runs.errors import RunFailed
from workers.runs.gpu_meter import GpuMeter
from workers.training.cluster.head import HEAD_LOST
from workers.training.cluster.plan import ClusterPlan
from workers.training.cluster.rollout_wire import RolloutServerStart
from workers.training.cluster.wire import (
    EVENT,
    Bring,
    Brought,
    EngineDown,
    EngineUp,
    ExtraGpusHeld,
    GiveRollouts,
    Line,
    Pause,
    Placed,
    Restart,
    RolloutsDown,
    RolloutsUp,
    Said,
)
from workers.training.coordinator.policy import VersionedPolicy
from workers.training.learner.directory.run_dir import RunDir
from workers.training.supervise.engine import CHECK_S, DEATHS, MEMORY_S, UNSERVED, given_up
from workers.training.supervise.spread_source import RolloutHost, RolloutHosts

LINE_BYTES = 1024 * 1024
REST_S = 3600.0  # before an extra engine that never served is tried again
STOPPING_S = 15.0  # for the driver to clean up on other hosts
LEARNER = ("workers.training.cluster.learner",)


class RemoteLife:
    """The life of an engine on another host, as reported by the driver."""

    def __init__(self, number: int, address: EngineAddress, end: Callable[[int], None]) -> None:
        self._number, self._address, self._end = number, address, end
        self._ended = asyncio.Event()
        self._reason = ""

    @property
    def address(self) -> EngineAddress:
        """The engine's address."""
        return self._address

    @property
    def alive(self) -> bool:
        """Whether its end was not reported."""
        return not self._ended.is_set()

    async def healthy(self) -> bool:
        """Return whether it answers."""
        return self.alive and await answers(self.address)

    async def death(self, otherwise: str = "does not answer") -> EngineDied:
        """Return why it ended."""
        return EngineDied(f"the engine {otherwise}" if self.alive else self._reason)

    async def wait(self) -> None:
        """Wait for its end."""
        await self._ended.wait()

    async def stop(self, *, gently: bool = True) -> None:
        """End it; the driver starts another one."""
        self._end(self._number)

    def ended(self, reason: str) -> None:
        """Record its end, as the driver reported it."""
        self._reason = reason
        self._ended.set()


class RemoteEngine(PolicyEngine):
    """An engine on another host. Weights are copied there before the engine is told to load them."""

    def __init__(self, life: RemoteLife, name: str, bring: Callable[[Path], asyncio.Future[Path]]) -> None:
        super().__init__(life, name)
        self._bring = bring

    async def bring(self, directory: Path) -> Path:
        """Copy a directory to the engine's host, unless it is there. Raises EngineRefused."""
        return await self._bring(directory)

    async def load_adapter(self, name: str, directory: Path) -> None:
        """Copy and load an adapter. Raises EngineRefused."""
        await super().load_adapter(name, await self.bring(directory))

    async def replace_weights(self, directory: Path) -> None:
        """Copy and load full weights. Raises EngineRefused."""
        await super().replace_weights(await self.bring(directory))


@dataclass
class HostsKeeper:
    """Keeps the run's hosts.

    `run` lasts as long as the run; `placed` is set when the run has its hosts. Raises RunFailed.
    """

    plan: ClusterPlan
    run_dir: RunDir
    policy: VersionedPolicy
    children: Children
    environment: Mapping[str, str]  # for processes that talk to Ray
    log: Callable[[str], None]
    note: Callable[[str], None]  # sets the progress note on the run's page while hosts are awaited
    stall_s: float = 180.0
    extra_gpus: GpuMeter = field(default_factory=GpuMeter)  # counts what extra engines hold
    hosts: RolloutHosts | None = None  # kept up to date, for rollouts on other hosts
    placed: asyncio.Event = field(default_factory=asyncio.Event)
    ip: str = ""  # this host's address for the others, set when `placed`
    _process: asyncio.subprocess.Process | None = field(default=None, init=False)
    _engines: dict[int, tuple[RemoteEngine, RemoteLife]] = field(default_factory=dict, init=False)
    _brought: dict[int, asyncio.Future[Path]] = field(default_factory=dict, init=False)
    _ids: itertools.count[int] = field(default_factory=itertools.count, init=False)
    _deaths: list[float] = field(default_factory=list, init=False)
    _served: set[int] = field(default_factory=set, init=False)  # numbers of running engines that have served
    _unserved: Counter[int] = field(default_factory=Counter, init=False)  # ends in a row before serving, by engine
    _rollouts: RolloutServerStart | None = field(default=None, init=False)

    async def run(self) -> None:
        """Follow the driver; restart it if it ends, a bounded number of times."""
        self.run_dir.cluster.write_text(self.plan.model_dump_json(indent=1))
        clock = asyncio.get_running_loop().time
        deaths: list[float] = []
        while True:
            status = await self._follow()
            if status == HEAD_LOST:
                raise RunFailed.because(
                    FailureKind.INFRASTRUCTURE,
                    "cluster_lost",
                    f"The head of the Ray cluster at {self.plan.address} does not answer, so the run's hosts are lost.",
                    "It goes on from its checkpoint on a cluster with room. After the last attempt, resume it.",
                )
            deaths = [at for at in deaths if clock() - at < MEMORY_S] + [clock()]
            if len(deaths) > DEATHS or not self.placed.is_set():
                raise RunFailed.because(
                    FailureKind.INFRASTRUCTURE,
                    "cluster_lost",
                    f"The driver of the run's hosts ended ({status}).",
                    "See the worker's log for Ray's reason, and `ray status` on its host; the run can be resumed.",
                )
            self.log(f"the driver of the run's hosts ended ({status}); starting it anew")

    async def _follow(self) -> int:
        """Follow one life of the driver, drop what ended with it, and return its exit status."""
        async with self._driver() as process, asyncio.TaskGroup() as tasks:
            assert process.stdout is not None
            async for line in process.stdout:
                self._hear(EVENT.validate_json(line), tasks)
            status = await process.wait()
            for number in list(self._engines):
                self._end(EngineDown(engine=number, reason="its driver ended", host_lost=True))
            for number in list(self.hosts.hosts) if self.hosts else ():
                self._lose_rollouts(number)
            for waiting in self._brought.values():
                waiting.cancel()
            self._brought.clear()
        return status

    def _hear(self, event: object, tasks: asyncio.TaskGroup) -> None:
        match event:
            case Placed(hosts=hosts, ip=ip):
                self.log(f"placed on {', '.join(hosts)}")
                self.ip = ip
                self.placed.set()
                self._ask_for_rollouts()
            case RolloutsUp(host=number, ip=ip, base_url=url, key=key) if self.hosts is not None:
                self.hosts.hosts[number] = RolloutHost(ip, EngineAddress(url, key))
                self.log(f"{ip} gives rollouts")
            case RolloutsDown(host=number, reason=reason):
                self._lose_rollouts(number)
                self.log(f"host {number} gives no rollouts: {reason}")
            case Said(text=text, waits=waits):
                self.log(text)
                if waits:
                    self.note(text)
            case EngineUp():
                life = RemoteLife(event.engine, EngineAddress(event.base_url, event.key), self._restart)
                engine = RemoteEngine(life, self.plan.start.name, partial(self._bring, event.engine))
                self._engines[event.engine] = (engine, life)  # before its end is heard, which may be the next line
                tasks.create_task(self._serve(event, engine, life))
            case EngineDown():
                self._end(event)
            case ExtraGpusHeld(count=count):
                self.extra_gpus.hold(count)
            case Brought(id=number, path=path, error=error) if number in self._brought:
                waiting = self._brought.pop(number)
                if not waiting.done():
                    waiting.set_exception(EngineRefused(error)) if error else waiting.set_result(Path(path))

    async def _serve(self, up: EngineUp, engine: RemoteEngine, life: RemoteLife) -> None:
        """Give a new engine its weights and watch it."""
        try:
            if not life.alive:
                return
            await self.policy.attach(engine, limit_s=self.stall_s if self._extra(up.engine) else None)
            self._unserved.pop(up.engine, None)
            self._served.add(up.engine)
            self.log(f"engine {up.engine} serves on {up.host}: {self._serving(up.engine)}")
            await self._watch(up.engine, life)
        except EngineRefused as error:
            self.log(f"engine {up.engine} took no weights: {str(error)[:500]}")
            self._restart(up.engine)
        finally:
            self.policy.detach(engine)
            await engine.close()

    async def _watch(self, number: int, life: RemoteLife) -> None:
        """Return when the engine has ended; end it if it does not answer for `stall_s`."""
        clock = asyncio.get_running_loop().time
        heard = clock()
        while life.alive:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(CHECK_S, self.stall_s / 4)):
                    await life.wait()
            if await life.healthy():
                heard = clock()
            elif life.alive and clock() - heard > self.stall_s:
                self.log(f"engine {number} has not answered for {clock() - heard:.0f} s: ending it")
                self._restart(number)
                return

    def _end(self, down: EngineDown) -> None:
        """Handle the end of an engine. Engines that keep ending fail the run; extra ones and lost hosts do not."""
        engine, life = self._engines.pop(down.engine, (None, None))
        if life is not None and engine is not None:
            life.ended(down.reason)
            self.policy.detach(engine)
        self.log(f"engine {down.engine} ended: {down.reason[:500]}")
        served = down.engine in self._served
        self._served.discard(down.engine)
        if down.host_lost:
            return
        if not served:
            self._unserved[down.engine] += 1
        in_vain = self._unserved[down.engine] >= UNSERVED
        if self._extra(down.engine):
            if in_vain:
                self._unserved.pop(down.engine)
                self.log(f"engine {down.engine} never served: it is started again in {REST_S / 60:.0f} minutes")
                self._tell(Pause(engine=down.engine, seconds=REST_S))
            return
        if in_vain:
            raise given_up(
                f"Engine {down.engine} was started {UNSERVED} times in a row and never served. {down.reason}"
            )
        now = asyncio.get_running_loop().time()
        self._deaths = [at for at in self._deaths if now - at < MEMORY_S] + [now]
        if len(self._deaths) > DEATHS * self.plan.split.engines:
            raise given_up(f"Engines ended {len(self._deaths)} times within ten minutes. {down.reason}")

    def _extra(self, number: int) -> bool:
        """Return whether the run can do without an engine."""
        return number >= self.plan.split.engines

    def _serving(self, number: int) -> str:
        if self._extra(number):
            return "one more than the run's own"
        return f"{sum(not self._extra(one) for one in self._engines)} of {self.plan.split.engines}"

    def give_rollouts(self, start: RolloutServerStart) -> None:
        """Open the run's environments on its other hosts, now and again after every loss."""
        self._rollouts = start
        self._ask_for_rollouts()

    def _ask_for_rollouts(self) -> None:
        if self._rollouts is not None:
            self._tell(GiveRollouts(start=self._rollouts.model_dump(mode="json")))

    def _lose_rollouts(self, number: int) -> None:
        if self.hosts is not None and (host := self.hosts.hosts.pop(number, None)) is not None:
            host.gone.set()

    def _bring(self, number: int, directory: Path) -> asyncio.Future[Path]:
        waiting: asyncio.Future[Path] = asyncio.get_running_loop().create_future()
        command = Bring(id=next(self._ids), engine=number, directory=str(directory))
        self._brought[command.id] = waiting
        self._tell(command)
        return waiting

    def _restart(self, number: int) -> None:
        self._tell(Restart(engine=number))

    def _tell(self, line: Line) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(line.model_dump_json().encode() + b"\n")

    @asynccontextmanager
    async def _driver(self) -> AsyncIterator[asyncio.subprocess.Process]:
        process = self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "workers.training.cluster.driver", str(self.run_dir.root)),
            env=self.environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
            start_new_session=True,
        )
        self.children.record(process.pid, what="cluster driver", run_id=self.plan.run_id)
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()  # makes the driver clean up on other hosts
            with suppress(TimeoutError):
                async with asyncio.timeout(STOPPING_S):
                    await process.wait()
            self.extra_gpus.hold(0)  # Ray ends a driver's actors with it
            await asyncio.shield(asyncio.to_thread(self.children.end, process.pid))
