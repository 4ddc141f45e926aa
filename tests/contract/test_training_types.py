"""Golden files hold hub, worker and CLI of different versions together: what one wrote, the next still reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.models import deployments
from envhub.protocol.training import config, metrics, runs
from pydantic import BaseModel

GOLDEN = Path(__file__).resolve().parent / "golden" / "training"
TYPES: dict[str, type[BaseModel]] = {
    "adapter": runs.AdapterView,
    "adapter_report": runs.AdapterReport,
    "beginning_report": runs.BeginningReport,
    "checkpoint": runs.CheckpointView,
    "checkpoint_report": runs.CheckpointReport,
    "config": config.TrainingConfig,
    "deployment": deployments.DeploymentView,
    "deployment_request": deployments.DeploymentRequest,
    "evaluation_report": runs.EvaluationReport,
    "metrics": metrics.StepMetrics,
    "payload": runs.TrainPayload,
    "request": runs.TrainingRequest,
    "resume_request": runs.ResumeRequest,
    "rollout": runs.TrainingRolloutRow,
    "rollout_tokens": runs.RolloutTokens,
    "run": runs.TrainingRunView,
    "step_report": runs.StepReport,
}


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_read_back_without_loss(name: str) -> None:
    value = TYPES[name].model_validate(golden(name))
    assert covers(value.model_dump(mode="json"), golden(name))


def test_every_golden_file_has_its_type() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(TYPES)


def covers(written: Any, expected: Any) -> bool:
    """Whether all of `expected` is in `written`: a field that the type does not know would be missing."""
    if isinstance(expected, dict):
        return all(key in written and covers(written[key], value) for key, value in expected.items())
    if isinstance(expected, list):
        return len(written) == len(expected) and all(map(covers, written, expected))
    return bool(written == expected)
