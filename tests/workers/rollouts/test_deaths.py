"""A rollout that ends its runner (a crash, the memory limit) costs itself, not those that ran beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord
from envhub.protocol.registry.packages import Generation
from envhub.protocol.runner import Group, Hello, Load, Policy, RolloutDone

from workers.rollouts.errors import RunnerGone
from workers.rollouts.groups import POLICY_URL, GroupRunner
from workers.rollouts.interceptor.server import Interceptor
from workers.rollouts.pool import RunnerPool
from workers.rollouts.session import Runner

CRASHES = 2


class CrashingRunner:
    """Ends with everything that it runs a moment after it was given the example CRASHES."""

    gateway_url = "http://gateway"
    end = RunnerGone("it crashed")

    def __init__(self) -> None:
        self._crash = asyncio.Event()

    @property
    def alive(self) -> bool:
        return not self._crash.is_set()

    async def load(self, load: Load) -> Hello:
        return Hello(generation=Generation.LEGACY, verifiers="0", python="3", env_class="E", requires_group=False)

    async def run(self, group: Group) -> AsyncIterator[RolloutDone]:
        if group.example == CRASHES:
            asyncio.get_running_loop().call_later(0.02, self._crash.set)
        try:
            await asyncio.wait_for(self._crash.wait(), 0.05)
        except TimeoutError:
            yield RolloutDone(
                id=group.id,
                record=RolloutRecord(
                    example=group.example, rollout=0, example_hash="0" * 64, outcome=Outcome.OK, reward=1.0
                ),
            )
        else:
            raise self.end


@asynccontextmanager
async def open_runner(number: int) -> AsyncIterator[Runner]:
    yield cast("Runner", CrashingRunner())


async def test_a_crash_costs_one_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.rollouts.groups.FIRST_PAUSE_S", 0.0)
    policy = Policy(base_url=POLICY_URL, model="m")
    groups = [Group(id=f"g{example}", example=example, n=1, policy=policy) for example in range(6)]
    log: list[str] = []
    async with RunnerPool(open_runner, Load(env_id="e", module="e"), log=log.append) as pool:
        runner = GroupRunner(pool, Interceptor(cast("Any", None)), max_retries=2)
        found = await asyncio.gather(*[runner.run(lambda group=group: group) for group in groups])  # type: ignore[misc]
    outcomes = {record.example: record.outcome for (record,) in found}
    assert outcomes == {example: Outcome.FAILED if example == CRASHES else Outcome.OK for example in range(6)}
