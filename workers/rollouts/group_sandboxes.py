"""The sandboxes of a group's rollouts: each rollout's end with it, also while others of its group go on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from envhub.protocol.evals.rollouts import RolloutRecord

from workers.broker.broker import Broker
from workers.broker.machine import Machine
from workers.rollouts.interceptor.recorder import Recorder
from workers.rollouts.sandbox_use import blamed


class GroupSandboxes:
    """The sandboxes of one try of a group. `own` are the rollouts' recorders by index, `shared` is the group's."""

    def __init__(self, broker: Broker, example: int, own: Mapping[int, Recorder], shared: Recorder) -> None:
        self._broker, self._own, self._shared = broker, own, shared
        self._began = datetime.now(UTC)
        self._ends: dict[int, asyncio.Task[tuple[Sequence[Machine], str]]] = {}
        for index, recorder in own.items():
            broker.begin_rollout(recorder.key, f"example {example}, rollout {index}")
        broker.begin_rollout(shared.key, f"example {example}")

    def end(self, rollout: int) -> None:
        """Begin to end the sandboxes of a rollout, whose room others of its group may wait for."""
        if rollout in self._own and rollout not in self._ends:
            self._ends[rollout] = asyncio.create_task(self._end(self._own[rollout].key))

    async def _end(self, key: str) -> tuple[Sequence[Machine], str]:
        refused = self._broker.refusal_of(key)
        return await self._broker.end_rollout(key), refused

    async def added_to(self, record: RolloutRecord) -> RolloutRecord:
        """Add the sandboxes used to a record. Those requested by a group's shared client are shown with each of its
        rollouts, since it cannot be told whose they were.
        """
        self.end(record.rollout)
        machines, refused = await self._ends[record.rollout]
        refused = refused or self._broker.refusal_of(self._shared.key)
        return blamed(record, [*machines, *self._broker.of_rollout(self._shared.key)], self._began, refused)

    async def close(self) -> None:
        """End all that are left."""
        for rollout in self._own:
            self.end(rollout)
        await asyncio.gather(*self._ends.values(), return_exceptions=True)
        await self._broker.end_rollout(self._shared.key)
