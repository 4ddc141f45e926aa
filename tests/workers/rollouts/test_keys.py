"""Who knows one rollout's URL cannot guess another's, and so cannot forge its turns or book a judge on it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from envhub.protocol.evals.rollouts import Outcome, RolloutRecord
from envhub.protocol.registry.packages import Generation
from envhub.protocol.runner import Group, Policy, RolloutDone

from tests.workers.rollouts.conftest import HELLO, Box
from workers.rollouts.groups import POLICY_URL, GroupRunner
from workers.rollouts.pool import RunnerPool

SEEN = "a" * 22


class Attacker:
    """A pool in whose box a program of rollout 0, which knows its own URL, tries to find rollout 1's."""

    hello = SimpleNamespace(generation=Generation.CURRENT)

    def __init__(self, box: Box) -> None:
        self.box, self.statuses, self.keys = box, list[int](), list[str]()

    async def run(self, group: Group, **_: object) -> list[RolloutDone]:
        own, other = group.policy.keys
        self.keys += [own, other, group.policy.group_key]
        guesses = [f"{group.id}.{index}" for index in ("1", "g", "0")] + ["e0-0-1.1", "..", "%2e%2e", "*", "", "1", "g"]
        guesses += [own[:-1] + letter for letter in "abcdef01-_" if letter != own[-1]] + [other[:-1], other + "a"]
        for guess in guesses:
            self.statuses.append((await self.box.post(f"/r/{guess}/v1/chat/completions", HELLO))[0])
        await self.box.post(f"/r/{own}/v1/chat/completions", HELLO)
        record = RolloutRecord(example=0, rollout=0, example_hash="0" * 64, outcome=Outcome.OK, reward=1.0)
        return [RolloutDone(id=group.id, record=record.model_copy(update={"rollout": index})) for index in (0, 1)]


async def attack(box: Box) -> tuple[Attacker, list[RolloutRecord]]:
    pool = Attacker(box)
    runner = GroupRunner(cast("RunnerPool", pool), box.interceptor, max_retries=0)
    group = Group(id="e0-0-1", example=0, n=2, policy=Policy(base_url=POLICY_URL, model="m"))
    return pool, await runner.run(lambda: group)


async def test_a_siblings_turns_cannot_be_forged(box: Box) -> None:
    pool, records = await attack(box)
    assert set(pool.statuses) == {404}
    assert [len(record.turns) for record in records] == [1, 0]


async def test_keys_are_long_random_and_new_for_every_try(box: Box) -> None:
    keys = [key for _ in range(3) for key in (await attack(box))[0].keys]
    assert len(set(keys)) == 9
    assert {len(key) for key in keys} == {len(SEEN)}


async def test_a_key_ends_with_its_group(box: Box) -> None:
    pool, _ = await attack(box)
    for key in pool.keys:
        assert (await box.post(f"/r/{key}/v1/chat/completions", HELLO))[0] == 404
