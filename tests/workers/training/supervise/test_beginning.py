"""The hub is told which of its steps a life does not go on from."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from envhub.protocol.training.config import TrainingConfig
from envhub.protocol.training.runs import PolicyTarget, TrainPayload

from workers.training.learner.directory.run_dir import RunDir
from workers.training.supervise.beginning import discard_later
from workers.training.supervise.directory import note_reported


@pytest.mark.parametrize(("told", "steps"), [(7, [4]), (4, [])])
async def test_steps_of_the_hub_that_are_not_gone_on_from_are_discarded(
    tmp_path: Path, told: int, steps: list[int]
) -> None:
    posted: list[Any] = []
    said: list[str] = []

    async def post(path: str, body: Any, _reply: Any) -> None:
        assert path == "/training/tr/beginning"
        posted.append(body)

    job: Any = SimpleNamespace(run=SimpleNamespace(post=post), lease=SimpleNamespace(log=said.append))
    config = TrainingConfig.model_validate({"model": "hub/tiny", "env": [{"id": "a/b"}]})
    model = PolicyTarget(reference="hub/tiny")
    payload = TrainPayload(training_id="tr", config=config, model=model, environments=(), reported_steps=told)
    note_reported(RunDir(tmp_path), 4)
    await discard_later(job, payload, RunDir(tmp_path))
    assert [body.step for body in posted] == steps
    assert ["steps 5 to 7" in line for line in said] == [True for _ in steps]
