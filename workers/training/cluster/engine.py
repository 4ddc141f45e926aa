"""An engine of a run on a cluster: its part on each of its hosts, which start, get weights and end as one."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ray.exceptions import RayError

from workers.inference.policy_engine import EnginePart, PolicyEngineStart
from workers.inference.process import EngineDied
from workers.training.cluster.share import Actor, Share

ENDING_S = 10.0  # for the parts to end, before their keepers are killed


@dataclass
class Engine:
    """Its keepers in the order of their parts, of which the first answers requests. One keeper: all on one host."""

    share: Share
    keepers: list[Actor] = field(default_factory=list)
    _ends: list[asyncio.Task[str]] = field(default_factory=list, init=False)

    @property
    def hosts(self) -> str:
        """The addresses of its hosts."""
        return ", ".join(keeper.here.ip for keeper in self.keepers)

    async def start(self) -> tuple[str, str]:
        """Start every part; return the address and key of the engine. Raises EngineDied, RayError, OSError.

        Any part's end ends the wait: the others would wait for it much longer.
        """
        base, directory = self.share.run.base.name, self.share.plan.start.directory
        copies = await asyncio.gather(*(self.share.bring(directory, base, keeper) for keeper in self.keepers))
        starts = [replace(self._part(number), directory=copy) for number, copy in enumerate(copies)]
        answering, *joining = (
            asyncio.create_task(started(keeper, start)) for keeper, start in zip(self.keepers, starts, strict=True)
        )
        try:
            await asyncio.gather(*joining)
            self._ends = [self._awaited(number) for number in range(1, len(self.keepers))]
            await asyncio.wait({answering, *self._ends}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise EngineDied(await self._first_end())
            return await answering
        finally:
            for task in (answering, *joining):
                task.cancel()

    async def ended(self) -> str:
        """Wait until the first of its parts has ended and return why. Raises RayError if a host is lost."""
        self._ends.append(self._awaited(0))
        return await self._first_end()

    async def bring(self, directory: Path, *, keep: int) -> str:
        """Copy a directory of the run to every host; return the path by which the engine finds it.

        Each part of several finds its own copy below its working directory. Raises RayError, OSError, ValueError.
        """
        name = directory.relative_to(self.share.run.root).as_posix()
        bringing = (self.share.bring(directory, name, keeper, keep=keep) for keeper in self.keepers)
        copies = await asyncio.gather(*bringing)
        return name if len(copies) > 1 else str(copies[0])

    async def end(self) -> None:
        """End every part with all its processes, then the keepers: a part would wait for those that are gone."""
        stopping = (stopped(keeper) for keeper in self.keepers)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(ENDING_S):
                    await asyncio.gather(*stopping, return_exceptions=True)
        finally:
            self.kill()

    def kill(self) -> None:
        """End every keeper at once; its processes follow."""
        for keeper in self.keepers:
            keeper.kill()

    def _part(self, number: int) -> PolicyEngineStart:
        start, first, own = self.share.plan.start, self.keepers[0].here, self.keepers[number]
        if len(self.keepers) == 1:
            return start
        root = self.share.run.root if own.here.node == self.share.home else Path(own.here.root)
        return replace(start, part=EnginePart(number, len(self.keepers), first.ip, first.port, root))

    async def _first_end(self) -> str:
        done, _ = await asyncio.wait(self._ends, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()

    def _awaited(self, number: int) -> asyncio.Task[str]:
        waiting = asyncio.create_task(self._end_of(number))
        waiting.add_done_callback(lambda task: task.cancelled() or task.exception())  # the first one's is told
        return waiting

    async def _end_of(self, number: int) -> str:
        keeper = self.keepers[number]
        reason = str(await keeper.handle.engine_ended.remote())
        return reason if len(self.keepers) == 1 else f"part {number} on {keeper.here.ip}: {reason}"


async def started(keeper: Actor, start: PolicyEngineStart) -> tuple[str, str]:
    """Start a part; return its address and key, if it is one that answers, as soon as it does."""
    url, key = await keeper.handle.start_engine.remote(start, keeper.here.ip)
    return url, key


async def stopped(keeper: Actor) -> None:
    """End a part."""
    with suppress(RayError):
        await keeper.handle.stop.remote(gently=True)
