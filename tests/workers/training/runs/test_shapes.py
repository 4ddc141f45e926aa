"""Environments with several turns and with tools train; so do two environments by their ratio, and bfloat16."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.workers.training.runs.trainings import Trainings, tiny_model

pytestmark = [pytest.mark.matrix, pytest.mark.sandbox, pytest.mark.torch]
SMALL: dict[str, Any] = {
    "max_steps": 2,
    "batch_size": 16,
    "rollouts_per_example": 4,
    "learning_rate": 1e-3,
    "sampling": {"max_tokens": 72},  # a tool call has about 60
    "pre_batch_filters": [],  # the tiny model may use its tool alike in all rollouts of a group
    "trainer": {"rank": 4, "token_budget": 4096, "max_off_policy": 0},
}


@pytest.mark.parametrize("environment", ["guess-number", "calculator-tool"])
async def test_several_turns_are_one_sample_each_rollout(trainings: Trainings, environment: str) -> None:
    trainings.model = tiny_model()  # one that calls tools
    finish = await trainings.finish(**SMALL, env=[{"id": f"alice/{environment}"}])
    assert finish.state == "succeeded", trainings.hub.runs["r0"].log
    for step in trainings.steps():
        assert step.environments[environment].turns_mean > 1
        assert step.kl is not None
        assert abs(step.kl) < 1e-4  # on policy: every trained token is the one that was sampled
        assert step.trained_tokens > 0


async def test_two_environments_share_a_batch_by_their_ratio(trainings: Trainings) -> None:
    env = [{"id": "alice/reverse-text", "ratio": 3}, {"id": "alice/guess-number", "ratio": 1}]
    finish = await trainings.finish(**SMALL, env=env)
    assert finish.state == "succeeded", trainings.hub.runs["r0"].log
    rows = [row for step in trainings.reports("steps") for part in step["segments"] for row in part["rows"]]
    groups = Counter(label for label, _ in {(row["environment"], row["group"]) for row in rows})
    assert groups == {"reverse-text": 6, "guess-number": 2}


@pytest.mark.parametrize("mode", ["lora", "full"])
async def test_bfloat16_holds_in_the_sampler_and_in_the_learner(trainings: Trainings, mode: str) -> None:
    trainer = SMALL["trainer"] | {"mode": mode, "dtype": "bfloat16"}
    finish = await trainings.finish(**SMALL | {"trainer": trainer}, env=[{"id": "alice/reverse-text"}])
    assert finish.state == "succeeded", trainings.hub.runs["r0"].log
    for step in trainings.steps():
        assert step.kl is not None
        assert 0 < abs(step.kl) < 0.01  # both round, not alike
