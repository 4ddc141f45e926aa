"""A table's budget ends rollouts as truncated; they are scored and trained on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workers.training.runs.test_run import SMALL

pytestmark = [pytest.mark.matrix, pytest.mark.sandbox, pytest.mark.torch]


async def test_rollouts_that_reach_max_turns_are_truncated_and_scored(trainings: Any) -> None:
    env = [{"id": "alice/guess-number", "max_turns": 1}]
    finish = await trainings.finish(**SMALL | {"max_steps": 1, "pre_batch_filters": []}, env=env)
    assert finish.state == "succeeded", trainings.hub.runs["r0"].log
    (step,) = trainings.steps()
    told = step.environments["guess-number"]
    assert set(told.failures) <= {"policy"}  # an empty answer now and then
    assert (step.failed_share < 0.3, told.turns_mean) == (True, 1.0)
    assert step.truncated_share > 0.5  # the others guessed at once, or gave up
    assert step.reward_mean is not None
    assert step.trained_tokens > 0
