"""A replay runs one example, begins with stored answers, and asks the model for the rest."""

from __future__ import annotations

import hashlib

import pytest
from envhub.packaging.asked import digest
from envhub.packaging.calls import Calls
from envhub.protocol.base import JsonObject
from envhub.protocol.evals.replays import Replay, StoredCall, StoredCalls
from envhub.protocol.evals.rollouts import RolloutRecord

from tests.workers.evals.conftest import Evaluations

pytestmark = pytest.mark.sandbox
EXAMPLE = 2
REPLAY = Replay(evaluation="before", example=EXAMPLE, rollout=1, calls=2)


async def begin(evaluations: Evaluations, **more: object) -> list[RolloutRecord]:
    """Store a rollout of three calls, and replay two of them."""
    await evaluations.finish(env_args={"calls": 3}, rollouts_per_example=2)
    stored = next(one for one in evaluations.hub.records() if (one.example, one.rollout) == (EXAMPLE, 1))
    whole = Calls(stored.turns)
    calls = tuple(
        StoredCall(
            protocol=turn.protocol,
            asked=digest(whole.request(turn)),
            response=turn.response | {"id": f"then {turn.index}"},
            finish_reason=turn.finish_reason,
        )
        for turn in stored.turns[:2]
    )
    evaluations.hub.replayed = StoredCalls(example_hash=stored.example_hash, calls=calls)
    return await again(evaluations, **more)


async def again(evaluations: Evaluations, **more: object) -> list[RolloutRecord]:
    hub = evaluations.hub
    hub.rows.clear(), hub.runs.clear(), evaluations.stub.requests.clear()
    hub._left = None
    env_args: JsonObject = {"calls": 3, **more}
    assert (await evaluations.finish(env_args=env_args, replay=REPLAY)).state == "succeeded"
    return hub.records()


async def test_the_first_calls_are_answered_as_then_and_the_model_is_asked_for_the_rest(
    evaluations: Evaluations,
) -> None:
    records = await begin(evaluations)
    assert sorted(evaluations.hub.rows) == [(EXAMPLE, 0), (EXAMPLE, 1)]
    assert evaluations.hub.totals[-1] == 2
    assert len(evaluations.stub.requests) == 2  # the third call of each
    for record in records:
        assert [turn.replayed for turn in record.turns] == ["same", "same", None]
        assert [turn.trainable for turn in record.turns] == [False, False, True]
        assert record.usage.completion_tokens == record.turns[2].usage.completion_tokens > 0


async def test_an_environment_that_does_otherwise_is_found_out(evaluations: Evaluations) -> None:
    (record, _) = await begin(evaluations, word="and now")
    assert [turn.replayed for turn in record.turns] == ["same", "changed", None]


async def test_a_rollout_that_is_gone_or_of_another_row_fails_the_run(evaluations: Evaluations) -> None:
    assert (await evaluations.failure(replay=REPLAY)).code == "not_found"
    evaluations.hub.replayed = StoredCalls(example_hash=hashlib.sha256(b"x").hexdigest(), calls=())
    failure = await evaluations.failure(replay=REPLAY)
    assert failure.code == "dataset_changed"
