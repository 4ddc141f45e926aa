"""`python -m workers.training.cluster.driver RUN_DIR`: holds a run's share of the cluster and keeps its engines.

Lives as long as its run: at its end, however that comes, Ray ends every actor of the run and frees its hosts.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError

from workers.inference.process import EngineDied
from workers.training.cluster.engine import Engine
from workers.training.cluster.head import HEAD_LOST, HeadLost, end_without_head
from workers.training.cluster.keeper import NoRollouts, RolloutServerDied
from workers.training.cluster.plan import read_plan
from workers.training.cluster.share import WEIGHTS_KEPT, Actor, Share, connect
from workers.training.cluster.visited import Visited
from workers.training.cluster.wire import (
    COMMAND,
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
from workers.training.learner.__main__ import die_with_parent
from workers.training.learner.directory.run_dir import RunDir

LOOK_S, SAID_EVERY = 1.0, 15  # seconds between looks at a share that is awaited; every 15th look is logged
PAUSE_S = 2.0  # before an engine is restarted
GUEST_PAUSE_S = 60.0  # before an extra engine that has failed is tried again, perhaps on another host
GUESTS_S = 2.0  # between looks at whether a run waits for room
TRIES, MEMORY_S = 10, 3600.0  # a host whose rollout server ends so often within this time is given up
LINE_BYTES = 64 * 1024 * 1024
STOPPING_S = 10.0


class Driver:
    """The driver of one run's engines, by number."""

    def __init__(self, share: Share, tell: Callable[[Line], None]) -> None:
        self.share, self._tell = share, tell
        self._engines: dict[int, Engine] = {}  # those that have at least a part of their hosts
        self._ending: set[int] = set()  # engines that the coordinator wanted ended
        self._up: set[int] = set()  # engines that the coordinator knows to serve
        self._pauses: dict[int, float] = {}  # when an engine may be started again (monotonic), if it must wait longer
        self._visited = Visited(share.run.visited)  # they may have an extra engine again, so files stay there
        self._placing = asyncio.Lock()  # one extra engine at a time asks for a host, so that two get different ones
        self._stopping = False
        self._extra_gpus = 0  # as the coordinator knows it

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Serve until the coordinator hangs up."""
        if not await self._wait_for_hosts(reader):
            await self._remove(range(0))
            return
        plan = self.share.plan
        keeping = [asyncio.create_task(self._keep(number)) for number in range(plan.split.engines)]
        if plan.split.extra:
            keeping.append(asyncio.create_task(self._invite()))
        try:
            async for line in reader:
                match COMMAND.validate_json(line):
                    case Bring() as command:
                        keeping.append(asyncio.create_task(self._bring(command)))
                    case GiveRollouts(start=start):
                        others = range(1, plan.split.hosts)
                        keeping += [asyncio.create_task(self._give_rollouts(host, start)) for host in others]
                    case Restart(engine=number) if number in self._engines:
                        self._ending.add(number)
                        keeping.append(asyncio.create_task(self._engines[number].end()))
                    case Pause(engine=number, seconds=seconds):
                        self._pauses[number] = time.monotonic() + seconds
        finally:
            self._stopping = True
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)  # rollout servers end before their files go
            await self._remove(range(plan.split.hosts))

    async def _wait_for_hosts(self, reader: asyncio.StreamReader) -> bool:
        """Return whether the run got its hosts before the coordinator hung up."""
        looks = itertools.count()
        while not await self.share.placed(LOOK_S):
            if reader.at_eof():
                return False
            if next(looks) % SAID_EVERY == 0:
                words = self.share.plan.split.words()
                self._tell(Said(text=f"waiting for room {words}; the cluster has {spare()} to spare", waits=True))
        self._tell(Placed(hosts=self.share.hosts(), ip=ray.util.get_node_ip_address()))
        return True

    async def _invite(self) -> None:
        """Let extra engines use hosts that have room. They leave while any run of the cluster waits for room."""
        split, guests, looks = self.share.plan.split, dict[int, asyncio.Task[None]](), 0
        try:
            while True:
                looks = looks + 1 if await self.share.others_wait() else 0
                if looks > 1:  # a new group waits for a moment even if there is room
                    pending = [number for number in guests if number not in self._engines]
                    for number in pending or list(guests)[-1:]:
                        await self._dismiss(number, guests.pop(number))
                elif not looks:
                    for number in range(split.engines, split.engines + split.extra):
                        if number not in guests:
                            guests[number] = asyncio.create_task(self._keep(number))
                await asyncio.sleep(GUESTS_S)
        finally:
            for guest in guests.values():
                guest.cancel()
            await asyncio.gather(*guests.values(), return_exceptions=True)

    async def _dismiss(self, number: int, keeping: asyncio.Task[None]) -> None:
        """End an extra engine whose room is wanted."""
        engine = self._engines.pop(number, None)
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        if engine is not None:
            engine.kill()
        self._tell_extra()
        if number in self._up:
            self._down(number, "A run waits for its room.", host_lost=True)

    def _tell_extra(self) -> None:
        """Tell how many GPUs extra engines hold, if that has changed."""
        held = self.share.plan.engine_gpus * sum(map(self._extra, self._engines))
        if held != self._extra_gpus:
            self._extra_gpus = held
            self._tell(ExtraGpusHeld(count=held))

    def _down(self, number: int, reason: str, *, host_lost: bool) -> None:
        self._up.discard(number)
        self._tell(EngineDown(engine=number, reason=reason, host_lost=host_lost))

    async def _keep(self, number: int) -> None:
        """Run one engine; restart it whenever it ends."""
        while True:
            await asyncio.sleep(max(0.0, self._pauses.get(number, 0.0) - time.monotonic()))
            lost = False
            try:
                reason = await self._once(number)
            except (ActorDiedError, ActorUnavailableError) as error:
                lost = number not in self._ending
                reason = f"Its host or its keeper was lost: {str(error)[:300]}"
            except EngineDied as error:
                reason = str(error)
            except (RayError, OSError) as error:
                reason = f"{type(error).__name__}: {str(error)[:1000]}"
            finally:
                if not self._stopping and (engine := self._engines.pop(number, None)) is not None:
                    await engine.end()
                    self._tell_extra()
            if number in self._ending:
                reason = f"It was ended: {reason}"
                self._ending.discard(number)
            self._down(number, reason, host_lost=lost)
            await asyncio.sleep(PAUSE_S if lost or not self._extra(number) else GUEST_PAUSE_S)

    async def _once(self, number: int) -> str:
        """Start an engine in its place, wait, and return why it ended. Raises RayError, EngineDied, OSError."""
        engine = await self._place(number)
        url, key = await engine.start()
        self._up.add(number)
        self._tell(EngineUp(engine=number, host=engine.hosts, base_url=url, key=key))
        return await engine.ended()

    def _extra(self, number: int) -> bool:
        return number >= self.share.plan.split.engines

    async def _place(self, number: int) -> Engine:
        """Wait for an engine's place: in the run's bundles or, for an extra one, wherever there is room."""
        plan, engine = self.share.plan, Engine(self.share)
        if not self._extra(number):
            for host in plan.split.hosts_of(number):
                engine.keepers.append(await self.share.actor(host, gpus=plan.engine_gpus))
                self._engines[number] = engine
            return engine
        async with self._placing:
            used = (keeper.here.node for other in self._engines.values() for keeper in other.keepers)
            engine.keepers.append(await self.share.guest((*self.share.nodes(), *used)))
            self._engines[number] = engine
            self._visited.add(engine.keepers[0].here.node)
            self._tell_extra()
            return engine

    async def _give_rollouts(self, host: int, start: dict[str, object]) -> None:
        """Run a host's rollout server; restart it when it ends.

        A host without one still has its engines and learner processes.
        """
        ends: list[float] = []
        while len(ends) < TRIES:
            actor: Actor | None = None
            try:
                actor = await self.share.actor(host, gpus=0)
                url, key = await actor.handle.start_rollouts.remote(start, actor.here.ip)
                self._tell(RolloutsUp(host=host, ip=actor.here.ip, base_url=url, key=key))
                async for line in said(actor):
                    self._tell(Said(text=f"{actor.here.ip}: {line}"))
                reason = str(await actor.handle.rollouts_ended.remote())
            except NoRollouts as error:
                self._tell(RolloutsDown(host=host, reason=str(error)))
                return
            except (RayError, OSError, RolloutServerDied) as error:
                reason = f"{type(error).__name__}: {str(error)[-1000:]}"
            finally:
                if actor is not None:
                    actor.kill()
            now = time.monotonic()
            ends = [*(end for end in ends if now - end < MEMORY_S), now]
            if len(ends) == TRIES:
                reason = f"given up after {TRIES} ends within an hour: {reason}"
            self._tell(RolloutsDown(host=host, reason=reason))
            await asyncio.sleep(PAUSE_S)

    async def _bring(self, command: Bring) -> None:
        engine = self._engines.get(command.engine)
        if engine is None:
            self._tell(Brought(id=command.id, error="the engine has ended"))
            return
        try:
            path = await engine.bring(Path(command.directory), keep=WEIGHTS_KEPT)
        except (RayError, OSError) as error:
            self._tell(Brought(id=command.id, error=f"{type(error).__name__}: {str(error)[:500]}"))
        else:
            self._tell(Brought(id=command.id, path=path))

    async def _remove(self, hosts: range) -> None:
        """Leave nothing on these hosts of the run and on those that it visited; one that does not answer keeps files.

        They are kept for a week there. `hosts` are none if the run has not been placed.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(STOPPING_S):
                visited = self._visited.apart_from(self.share.nodes() if hosts else ())
                leaving = [*map(self._leave, hosts), *map(self._leave_visited, visited)]
                await asyncio.gather(*leaving, return_exceptions=True)
                self._visited.forget()

    async def _leave(self, host: int) -> None:
        """End a host's engines, then remove the run's files there: also where only learners and rollouts ran."""
        hosts_of, own = self.share.plan.split.hosts_of, [one for one in self._engines if not self._extra(one)]
        parts = [zip(hosts_of(number), self._engines[number].keepers, strict=False) for number in own]
        keepers = [keeper for at, keeper in itertools.chain(*parts) if at == host]
        await asyncio.gather(*(ended(keeper) for keeper in keepers), return_exceptions=True)
        actor = keepers[0] if keepers else await self.share.actor(host, gpus=0)  # to start one takes seconds
        await actor.handle.remove.remote()

    async def _leave_visited(self, node: str) -> None:
        """Remove the run's files from a host outside its bundles."""
        extra = [keeper for number in self._engines if self._extra(number) for keeper in self._engines[number].keepers]
        guests = [keeper for keeper in extra if keeper.here.node == node]
        actor = guests[0] if guests else await self.share.visitor(node)
        await actor.handle.remove.remote()


class Telling:
    """The channel to the coordinator: the original stdout.

    Ray prints to stdout too, so stdout becomes stderr from now on.
    """

    def __init__(self) -> None:
        self._lines = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def __call__(self, line: Line) -> None:
        """Send one line."""
        self._lines.write(line.model_dump_json() + "\n")
        self._lines.flush()


async def ended(actor: Actor) -> None:
    """End an actor's process."""
    await actor.handle.stop.remote()


async def said(actor: Actor) -> AsyncIterator[str]:
    """Yield the lines that a keeper's process writes, until it ends."""
    while lines := await actor.handle.lines.remote():
        for line in lines:
            yield line


def spare() -> str:
    """Describe the cluster's free resources."""
    have = ray.available_resources()
    nodes = sum(node["Alive"] for node in ray.nodes())
    return f"{have.get('CPU', 0):g} CPUs and {have.get('GPU', 0):g} GPUs on {nodes} hosts"


async def serve(run: RunDir) -> None:
    """Be the driver until standard input ends."""
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tell, plan = Telling(), read_plan(run)
    end_without_head(plan.address, connect(plan))
    await Driver(Share.make(plan, run), tell).run(reader)


def main() -> None:
    """Run the driver as a program."""
    parser = argparse.ArgumentParser(prog="python -m workers.training.cluster.driver", description=__doc__)
    parser.add_argument("run_dir", type=Path)
    run = RunDir(parser.parse_args().run_dir.absolute())
    die_with_parent()
    try:
        asyncio.run(serve(run))
    except HeadLost as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(HEAD_LOST)
    except (ConnectionError, RuntimeError, ValueError) as error:  # from ray.init: no cluster, or another one
        sys.exit(f"the Ray cluster cannot be used: {error}")


if __name__ == "__main__":
    main()
