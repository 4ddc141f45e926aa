"""A harness that no check has had is tried with a scripted model before the first rollout."""

from __future__ import annotations

import os

import pytest

from tests.workers.evals.conftest import Evaluations

pytestmark = pytest.mark.sandbox


async def test_what_it_lacks_ends_the_run_before_any_rollout(evaluations: Evaluations) -> None:
    lacks = {"lacks": "npm:pi-acp@0.0.33", "needs": True}
    failure = await evaluations.failure(tries_harness=True, harness={"id": "pi"}, env_args=lacks)
    assert failure.code == "needs_unmet"
    assert failure.message == "alice/fake@1 with this harness needs npm package pi-acp@0.0.33"
    assert failure.hint.startswith("npm package pi-acp@0.0.33: the npm registry of the worker's operator has none")
    assert (evaluations.stub.requests, evaluations.hub.rows) == ([], {})


async def test_one_that_works_costs_no_call_of_the_model(evaluations: Evaluations) -> None:
    finish = await evaluations.finish(tries_harness=True, harness={"id": "bash"}, num_examples=2)
    assert finish.state == "succeeded"
    assert (len(evaluations.stub.requests), len(evaluations.hub.rows)) == (4, 4)


async def test_one_that_worked_is_not_tried_again_for_the_same_owner(evaluations: Evaluations) -> None:
    tried = []
    for owner, harness in (("alice", "bash"), ("alice", "bash"), ("alice", "pi"), ("bob", "bash"), ("bob", "bash")):
        run = evaluations.queue(evaluations.payload(tries_harness=True, harness={"id": harness}, num_examples=1))
        run.owner = owner
        await evaluations.run(run)
        tried.append("the harness was tried, and works" in run.log)
    assert tried == [True, False, True, True, False]


@pytest.mark.matrix
async def test_one_that_was_tried_long_ago_is_tried_again(evaluations: Evaluations) -> None:
    await log_of(evaluations)
    (mark,) = (evaluations.data / "tried-harnesses").iterdir()
    os.utime(mark, (0, 0))
    assert "the harness was tried" in await log_of(evaluations)


async def log_of(evaluations: Evaluations) -> str:
    run = evaluations.queue(evaluations.payload(tries_harness=True, harness={"id": "bash"}, num_examples=1))
    await evaluations.run(run)
    return run.log


async def test_one_that_lacks_something_is_tried_again(evaluations: Evaluations) -> None:
    lacks = {"lacks": "npm:pi-acp@0.0.33", "needs": True}
    for _ in range(2):
        failure = await evaluations.failure(tries_harness=True, harness={"id": "pi"}, env_args=lacks)
        assert failure.code == "needs_unmet"


async def test_of_other_failures_the_rollouts_tell(evaluations: Evaluations) -> None:
    await evaluations.finish(tries_harness=True, harness={"id": "odd"}, num_examples=1, env_args={"lacks": "luck"})
    assert [row["failure_message"] for row in evaluations.hub.rows.values()] == ["RuntimeError: no luck"] * 2
    assert "did not come to its first model call: no luck" in evaluations.hub.runs["r0"].log
