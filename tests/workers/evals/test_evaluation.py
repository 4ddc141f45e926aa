"""An evaluation stores every rollout once, resumes where it was, and never scores what infrastructure broke."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque

import pytest
from envhub.protocol.evals.shards import DoneExample

from tests.fakes.policy_endpoint import Fault
from tests.workers.evals.conftest import Evaluations

pytestmark = pytest.mark.sandbox


async def test_every_rollout_is_stored_once_with_its_turns(evaluations: Evaluations) -> None:
    assert (await evaluations.finish()).state == "succeeded"
    records = evaluations.hub.records()
    assert sorted((record.example, record.rollout) for record in records) == [
        (e, r) for e in range(4) for r in range(2)
    ]
    for record in records:
        (turn,) = record.turns
        assert turn.request["messages"][0]["content"] == f"example {record.example}"
        assert (turn.trainable, record.reward, record.usage.completion_tokens) == (True, 1.0, 6)
        assert turn.tokens is not None
    assert evaluations.hub.totals[-1] == 8
    assert evaluations.hub.runs["r0"].progress[-1].done == 8


async def test_what_is_stored_is_not_run_again(evaluations: Evaluations) -> None:
    known = hashlib.sha256(b"1").hexdigest()
    evaluations.hub.done = (
        DoneExample(example=0, example_hash="0" * 64, rollouts=(0, 1)),
        DoneExample(example=1, example_hash=known, rollouts=(1,)),
    )
    assert (await evaluations.finish(num_examples=2)).state == "succeeded"
    assert list(evaluations.hub.rows) == [(1, 0)]
    assert len(evaluations.stub.requests) == 1


async def test_another_row_under_a_known_index_is_a_changed_dataset(evaluations: Evaluations) -> None:
    evaluations.hub.done = (DoneExample(example=0, example_hash="f" * 64, rollouts=(1,)),)
    assert (await evaluations.failure()).code == "dataset_changed"


async def test_a_passing_fault_is_retried_and_leaves_no_mark(evaluations: Evaluations) -> None:
    evaluations.stub.faults = deque([Fault.SERVER_ERROR, Fault.GARBAGE, Fault.RATE_LIMIT])
    assert (await evaluations.finish(max_retries=3)).state == "succeeded"
    assert {row["outcome"] for row in evaluations.hub.rows.values()} == {"ok"}
    assert all(len(record.turns) == 1 for record in evaluations.hub.records())


@pytest.mark.parametrize("swallow", [False, True])
async def test_an_endpoint_that_is_down_stops_the_run_and_scores_nothing(
    evaluations: Evaluations, swallow: bool
) -> None:
    evaluations.stub.always = Fault.SERVER_ERROR
    env_args = {"size": 500, "swallow_errors": swallow}
    failure = await evaluations.failure(env_args=env_args, max_retries=1, concurrency=4)
    assert (failure.kind, failure.code) == ("infrastructure", "endpoint_unavailable")
    assert "HTTP 500" in failure.message
    assert evaluations.hub.rows == {}
    assert len(evaluations.stub.requests) < 50


async def test_a_few_infrastructure_failures_are_stored_without_a_reward(evaluations: Evaluations) -> None:
    evaluations.stub.faults = deque([Fault.SERVER_ERROR] * 2)
    assert (await evaluations.finish(max_retries=0, concurrency=1)).state == "succeeded"
    rows = list(evaluations.hub.rows.values())
    assert sorted((row["failure_kind"] or "", row["reward"]) for row in rows if row["outcome"] == "failed") == [
        ("infrastructure", None),
        ("infrastructure", None),
    ]
    assert sum(row["reward"] == 1.0 for row in rows) == 6


async def test_groups_that_score_together_run_together(evaluations: Evaluations) -> None:
    await evaluations.finish(env_args={"requires_group": True}, rollouts_per_example=3)
    assert len(evaluations.hub.rows) == 12
    by_example = [row["sha256"] for (example, _), row in sorted(evaluations.hub.rows.items()) if example == 0]
    assert len(set(by_example)) == 1


async def test_a_crash_costs_the_example_that_causes_it_and_no_other(evaluations: Evaluations) -> None:
    finish = await evaluations.finish(env_args={"crash_on": 2}, rollouts_per_example=1, concurrency=1, max_retries=1)
    assert finish.state == "succeeded"
    outcomes = {key: (row["outcome"], row["failure_kind"]) for key, row in evaluations.hub.rows.items()}
    assert outcomes[2, 0] == ("failed", "environment")
    assert [outcomes[example, 0][0] for example in (0, 1, 3)] == ["ok"] * 3


async def test_an_environment_that_cannot_load_fails_with_its_own_reason(evaluations: Evaluations) -> None:
    failure = await evaluations.failure(env_args={"load": "fatal"})
    assert failure.code == "no_load_environment"
    assert "Traceback: here" in evaluations.hub.runs["r0"].log


async def test_an_environment_of_unknown_size_needs_a_number(evaluations: Evaluations) -> None:
    assert (await evaluations.failure(env_args={"size": None})).code == "unknown_size"
    assert (await evaluations.finish(env_args={"size": None}, num_examples=3)).state == "succeeded"


async def test_a_cancel_stops_within_two_seconds_and_keeps_what_is_done(evaluations: Evaluations) -> None:
    env_args = {"size": 1000, "slow_s": 0.05}
    run = evaluations.queue(evaluations.payload(env_args=env_args, concurrency=4))
    task = asyncio.create_task(evaluations.run(run))
    while not run.progress or run.progress[-1].done < 8:
        await asyncio.sleep(0.05)
    began = asyncio.get_running_loop().time()
    run.cancel = True
    await task
    assert asyncio.get_running_loop().time() - began < 2
    assert run.finish is not None
    assert run.finish.state == "cancelled"
    assert len(evaluations.hub.rows) >= 8


async def test_a_hub_that_restarts_meanwhile_loses_and_doubles_nothing(evaluations: Evaluations) -> None:
    hub = evaluations.hub
    hub.fail_next_uploads, hub.lose_next_segment_answers = 1, 1
    run = evaluations.queue(evaluations.payload(env_args={"size": 40, "slow_s": 0.05}, concurrency=4))
    task = asyncio.create_task(evaluations.run(run))
    while not run.progress or run.progress[-1].done < 8:
        await asyncio.sleep(0.05)
    hub.away = True
    await asyncio.sleep(1.5)
    hub.away = False
    finish = await task
    assert finish is not None
    assert finish.state == "succeeded"
    assert len(hub.rows) == len(hub.records()) == 80


async def test_secrets_reach_the_box_and_never_the_log(evaluations: Evaluations) -> None:
    run = evaluations.queue(evaluations.payload(secrets={"API_SECRET": "hunter2hunter2"}, num_examples=1))
    await evaluations.run(run)
    assert "loading fake http://127.0.0.1:31980/judge/v1 ***" in run.log
    assert "hunter2" not in run.log


async def test_many_rollouts_use_several_runners(evaluations: Evaluations) -> None:
    await evaluations.finish(env_args={"size": 60, "slow_s": 0.2}, concurrency=120)
    log = evaluations.hub.runs["r0"].log
    assert log.count("loading fake") == 2
    assert len(evaluations.hub.rows) == 120
    assert evaluations.stub.most_in_flight <= 120
