"""Runs one group of rollouts: opens its recorders, runs it, joins both halves, and retries infrastructure failures."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from envhub.protocol.evals.rollouts import RolloutFailure, RolloutRecord
from envhub.protocol.runner import Group, RolloutDone
from envhub.protocol.runs import FailureKind

from workers.broker.broker import Broker
from workers.rollouts.box_hints import advise
from workers.rollouts.errors import RunnerGone
from workers.rollouts.group_sandboxes import GroupSandboxes
from workers.rollouts.interceptor.recorder import Recorder
from workers.rollouts.interceptor.server import Interceptor
from workers.rollouts.joining import is_infrastructure, join, never_reported
from workers.rollouts.plausible import NO_HASH
from workers.rollouts.pool import RunnerPool
from workers.rollouts.spans import Traced, group_spans

POLICY_URL = "{gateway}/r/{rollout}/v1"  # the pool fills in {gateway}
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0
MOST_TOLD = 10  # tries again that are logged for one kind of failure, and kinds


@dataclass(frozen=True)
class GroupRunner:
    """Runs groups of one environment."""

    pool: RunnerPool
    interceptor: Interceptor
    max_retries: int
    broker: Broker | None = None  # for the sandboxes that the environment may request
    traced: Traced = field(default_factory=lambda: Traced(0))  # decides which rollouts have spans
    log: Callable[[str], None] = lambda text: None
    _told: Counter[str] = field(default_factory=Counter, init=False)  # tries again in the log, by their reason

    async def run(self, make: Callable[[], Group]) -> list[RolloutRecord]:
        """Return a record for each rollout, whatever happens.

        `make` is called for each try and returns the group under a new id. Raises RunnerFatal.
        """
        died = False
        for number in range(self.max_retries + 1):
            if number:
                pause = min(FIRST_PAUSE_S * 2**number, LONGEST_PAUSE_S)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  jitter
            last, group = number == self.max_retries, make()
            try:
                records = await self._once(group, number, alone=died and last)
            except RunnerGone as error:
                died = True
                if last:
                    return [lost(group, index, error) for index in indices(group)]
                continue
            trouble = [record for record in records if is_infrastructure(record)]
            if last or not trouble:
                return records
            self._tell(trouble[0])
        raise AssertionError("unreachable: the last attempt returns")

    def _tell(self, record: RolloutRecord) -> None:
        """Log why a group is tried again: the first times of each kind of failure, of which there are few."""
        assert record.failure is not None
        kind = record.failure.type[:100]
        if kind not in self._told and len(self._told) >= MOST_TOLD:
            return
        self._told[kind] += 1
        if self._told[kind] <= MOST_TOLD:
            where = f"example {record.example}, rollout {record.rollout}"
            self.log(f"{where}: tried again because of {kind}: {record.failure.message[:300]}")

    async def _once(self, group: Group, retry: int, *, alone: bool) -> list[RolloutRecord]:
        own = {index: self.interceptor.open(f"{group.id}.{index}") for index in indices(group)}
        shared = self.interceptor.open(f"{group.id}.g", rollouts=group.n)
        sandboxes = GroupSandboxes(self.broker, group.example, own, shared) if self.broker is not None else None
        keys = {"keys": tuple(recorder.key for recorder in own.values()), "group_key": shared.key}
        group = group.model_copy(update={"policy": group.policy.model_copy(update=keys)})
        try:
            with group_spans(group, own, shared, retry, self.traced) as spans:

                def note_report(rollout: int) -> None:
                    spans.note_report(rollout)
                    if sandboxes is not None:
                        sandboxes.end(rollout)

                told = await self.pool.run(group, alone=alone, note_report=note_report)
                done = {item.record.rollout: item for item in told}
                records = [self._joined(group, index, done.get(index), own[index], shared) for index in indices(group)]
                if sandboxes is not None:
                    records = [await sandboxes.added_to(record) for record in records]
                for record in records:
                    spans.end(record)
                return records
        finally:
            for recorder in (*own.values(), shared):
                self.interceptor.close(recorder.key)
            if sandboxes is not None:
                await sandboxes.close()

    def _joined(
        self, group: Group, index: int, done: RolloutDone | None, own: Recorder, shared: Recorder
    ) -> RolloutRecord:
        judge_usage = self.interceptor.close(own.key)
        if done is None:
            failure = RolloutFailure(
                kind=FailureKind.ENVIRONMENT,
                type="NotReported",
                message="The runner ended the group without reporting this rollout.",
            )
            return never_reported(group.example, index, group.example_hash or NO_HASH, failure)
        generation = self.pool.hello.generation
        record = join(
            done,
            own.turns,
            shared.turns,
            generation=generation,
            judge_usage=judge_usage,
            budget_spent=own.budget_spent,
        )
        return advise(record)


def lost(group: Group, index: int, error: RunnerGone) -> RolloutRecord:
    """Make a record for a rollout whose runner died in every try: by the environment, the memory limit or the host."""
    kind = FailureKind.LIMIT if error.oom else FailureKind.ENVIRONMENT
    if error.outside:
        kind = FailureKind.INFRASTRUCTURE
    failure = RolloutFailure(kind=kind, type="RunnerGone", message=str(error))
    return never_reported(group.example, index, group.example_hash or NO_HASH, failure)


def indices(group: Group) -> Sequence[int]:
    """Return the rollout indices of a group."""
    return range(group.first_index, group.first_index + group.n)
