"""The run's engine, kept alive: a dead or deaf one is started anew, gets the newest weights and its requests again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from envhub.protocol.runs import FailureKind

from workers.inference.policy_engine import EngineDied, EngineRefused, PolicyEngine, PolicyEngineStart, policy_engine
from workers.runs.children import Children
from workers.runs.errors import RunFailed
from workers.training.coordinator.policy import VersionedPolicy

DEATHS = 3  # within MEMORY_S
UNSERVED = 3  # starts in a row, however long each took: vLLM may take a quarter of an hour to fail
MEMORY_S = 600.0
CHECK_S = 5.0


@dataclass
class EngineKeeper:
    """`run` never returns by itself. Raises RunFailed."""

    start: PolicyEngineStart
    policy: VersionedPolicy
    children: Children
    home: Path
    log: Callable[[str], None]
    run_id: str
    stall_s: float = 180.0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while it starts; the learner's turns hold it too

    async def run(self) -> None:
        """Serve, and serve again."""
        deaths: list[float] = []
        unserved = 0
        clock = asyncio.get_running_loop().time
        while True:
            unserved += 1
            engine: PolicyEngine | None = None
            try:
                async with AsyncExitStack() as stack:
                    async with self.turn:
                        start = policy_engine(self.start, children=self.children, home=self.home, run_id=self.run_id)
                        engine = await stack.enter_async_context(start)
                        await self.policy.attach(engine)
                    self.log(f"the {self.start.kind} engine serves")
                    unserved = 0
                    await self._until_it_ends(engine)
                    reason = str(await engine.process.death())
            except (EngineDied, EngineRefused) as error:
                reason = str(error)
            finally:
                if engine is not None:
                    self.policy.detach(engine)
            deaths = [at for at in deaths if clock() - at < MEMORY_S] + [clock()]
            if unserved >= UNSERVED:
                raise given_up(f"The engine was started {unserved} times in a row and never served. {reason}")
            if len(deaths) > DEATHS:
                raise given_up(f"The engine ended {len(deaths)} times within ten minutes. {reason}")
            self.log(f"{reason[:500]} Starting it anew.")

    async def _until_it_ends(self, engine: PolicyEngine) -> None:
        """Returns when the process is gone, or has not answered for `stall_s`."""
        clock = asyncio.get_running_loop().time
        heard = clock()
        while engine.process.alive and clock() - heard < self.stall_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(CHECK_S, self.stall_s / 4)):
                    await engine.process.wait()
            if await engine.process.healthy():
                heard = clock()
        if engine.process.alive:
            self.log(f"the engine has not answered for {clock() - heard:.0f} s: ending it")


def given_up(message: str) -> RunFailed:
    """The end of a run whose engine does not stay."""
    return RunFailed.because(
        FailureKind.INFRASTRUCTURE,
        "engine_keeps_dying",
        message[:3500],
        "See the log for its last lines; the model may be too large for this worker.",
    )
