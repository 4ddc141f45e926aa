"""Engine and learner in turns on one GPU: the engine sleeps while the learner has the turn that it asked for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from workers.training.coordinator.policy import VersionedPolicy
from workers.training.learner.directory.run_dir import RunDir
from workers.training.learner.directory.turn_files import read_token, write_token

POLL_S = 0.02


@dataclass
class Turns:
    """`run` lasts until it is cancelled. `lock` is held during a turn, and by the engine's keeper during a start."""

    run_dir: RunDir
    policy: VersionedPolicy
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self) -> None:
        """Grant what is wanted. Turns that follow one another at once, as in a replay, are one rest of the engine."""
        while True:
            while not read_token(self.run_dir.turn_wanted):  # noqa: ASYNC110  another process writes it
                await asyncio.sleep(POLL_S)
            async with self.lock, self.policy.resting():
                while token := read_token(self.run_dir.turn_wanted):
                    write_token(self.run_dir.turn_granted, token)
                    while read_token(self.run_dir.turn_wanted) == token:  # noqa: ASYNC110
                        await asyncio.sleep(POLL_S)
