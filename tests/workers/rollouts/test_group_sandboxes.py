"""A rollout's sandboxes end with it, while others of its group go on."""

from __future__ import annotations

import pytest
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord

from tests.workers.broker.conftest import broker, make_broker, root
from workers.broker.broker import Broker
from workers.broker.interface import NotThere, Wish
from workers.rollouts.group_sandboxes import GroupSandboxes
from workers.rollouts.interceptor.recorder import Caps, Recorder

pytestmark = pytest.mark.sandbox
__all__ = ["broker", "make_broker", "root"]


def record_of(rollout: int) -> RolloutRecord:
    return RolloutRecord(example=3, rollout=rollout, example_hash="0" * 64, outcome=Outcome.OK, reward=1.0)


async def test_room_is_free_when_a_rollout_is_reported_and_the_record_tells_all(broker: Broker) -> None:
    own = {index: Recorder(f"g.{index}", Caps()) for index in (0, 1)}
    shared = Recorder("g.g", Caps())
    sandboxes = GroupSandboxes(broker, 3, own, shared)
    assert broker.title_of(own[1].key) == "example 3, rollout 1"
    async with broker.session() as session:
        first = [await session.create(Wish(image="here"), rollout=own[0].key) for _ in range(4)]  # all that there are
        for machine in first:
            await machine.ready()
        waiting = await session.create(Wish(image="here"), rollout=own[1].key)
        sandboxes.end(0)
        await waiting.ready()
        assert all(machine.state.final for machine in first)
        with pytest.raises(NotThere):
            await session.create(Wish(image="here"), rollout=own[0].key)
        told = [await sandboxes.added_to(record_of(rollout)) for rollout in (0, 1)]
        assert [len(record.sandboxes) for record in told] == [4, 1]
        assert waiting.state.final
        left = await session.create(Wish(image="here"), rollout=shared.key)
        await sandboxes.close()
        assert left.state.final
