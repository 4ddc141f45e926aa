"""How an environment of a run is loaded."""

from __future__ import annotations

from typing import Any

import pytest
from envhub.protocol.registry.builds import EnvironmentLock
from envhub.protocol.registry.packages import Generation, GenerationEvidence
from envhub.protocol.training.environment import TrainingEnvironment
from envhub.protocol.training.runs import TrainTarget

from workers.training.coordinator.sources import load_of


@pytest.mark.parametrize(
    ("generation", "harness"),
    [
        (Generation.CURRENT, {"id": "bash", "max_turns": 3, "max_total_tokens": 900}),
        (Generation.LEGACY, {"id": "bash"}),
        (Generation.HARNESS, {"id": "bash"}),
    ],
)
def test_the_current_generation_keeps_the_budgets_of_its_table_itself(
    generation: Generation, harness: dict[str, Any]
) -> None:
    asked = {"id": "alice/a", "max_turns": 3, "max_total_tokens": 900, "harness": {"id": "bash"}}
    target = TrainTarget(
        label="a",
        environment="alice/a@1",
        env_id="a",
        module="a",
        evidence=GenerationEvidence(generation=generation, specifier="", constraint_set=""),
        lock=EnvironmentLock(python="3.11", platform="linux", verifiers="", wheels=()),
        config=TrainingEnvironment.model_validate(asked),
    )
    assert load_of(target).harness == harness
