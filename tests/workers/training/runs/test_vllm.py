"""A training run on the real vLLM: adapters by name, and full weights; learner and engine agree after each exchange."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.contract.engines import VLLM_ARGUMENTS
from tests.workers.training.runs.trainings import Trainings

pytestmark = [pytest.mark.vllm, pytest.mark.sandbox, pytest.mark.torch]
SMALL: dict[str, Any] = {
    "max_steps": 3,
    "batch_size": 32,
    "rollouts_per_example": 4,
    "learning_rate": 2e-3,
    "sampling": {"max_tokens": 6},
}


@pytest.mark.parametrize("mode", ["lora", pytest.param("full", marks=pytest.mark.matrix)])
async def test_the_sampler_has_the_learners_weights_at_every_step(trainings: Trainings, mode: str) -> None:
    trainings.settings = {"vllm_python": os.environ["VLLM_PYTHON"], "vllm_arguments": VLLM_ARGUMENTS}
    trainer = {"mode": mode, "rank": 8, "alpha": 16, "engine": "vllm", "max_off_policy": 0, "token_budget": 4096}
    finish = await trainings.finish(**SMALL, trainer=trainer)
    assert finish.state == "succeeded", trainings.hub.runs["r0"].log
    steps = trainings.steps()
    assert [step.step for step in steps] == [1, 2, 3]
    for step in steps:
        assert step.staleness_max == 0
        assert step.kl is not None
        assert abs(step.kl) < 1e-4
        assert step.ratio_max == pytest.approx(1.0, abs=1e-3)
