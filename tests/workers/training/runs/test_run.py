"""A whole training run tells the hub everything: steps, rollouts with token view, evaluations, checkpoints, adapter."""

from __future__ import annotations

import io
import math
from statistics import fmean
from typing import Any

import pytest
from envhub.packaging.segments import read_segment
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.training.runs import TOKENS_KEY, RolloutTokens

pytestmark = [pytest.mark.sandbox, pytest.mark.torch]
SMALL: dict[str, Any] = {
    "max_steps": 2,
    "batch_size": 16,
    "rollouts_per_example": 4,
    "learning_rate": 1e-3,
    "sampling": {"max_tokens": 6},
    "trainer": {"rank": 4, "token_budget": 4096},
}


def records(trainings: Any, step: dict[str, Any]) -> list[RolloutRecord]:
    """The rollouts of a reported step, read from storage."""
    blobs = [trainings.hub.blobs[segment["sha256"]] for segment in step["segments"]]
    return [record for blob in blobs for record in read_segment(io.BytesIO(blob))]


async def test_every_part_of_a_run_is_reported(trainings: Any) -> None:
    evaluation = {"num_examples": 2, "interval": 100, "env": [{"id": "alice/reverse-text"}]}
    validation = {"num_examples": 2, "interval": 2}
    finish = await trainings.finish(**SMALL, eval=evaluation, val=validation)
    assert finish.state == "succeeded", trainings.hub.runs["r0"].log
    steps = trainings.steps()
    assert [(step.step, step.version) for step in steps] == [(1, 1), (2, 2)]
    for step in steps:
        assert step.trained_tokens > 0
        assert step.kl is not None
        assert abs(step.kl) < 1e-3 or step.staleness_max  # on policy, sampler and learner say the same
    assert "starting after step 0" in trainings.hub.runs["r0"].log
    assert "successfully saved" not in trainings.hub.runs["r0"].log  # a library about each file of a checkpoint
    points = {(point.label, point.step): point.rollouts for point in trainings.evaluations()}
    assert points == {("reverse-text", 0): 2, ("reverse-text", 2): 2, ("val", 0): 2, ("val", 2): 2}
    assert [(one["step"], one["final"]) for one in trainings.reports("adapters")] == [(2, True)]
    assert trainings.reports("checkpoints")[-1]["step"] == 2
    for report in trainings.reports("steps"):
        check_rollouts(trainings, report)
    assert not list((trainings.data / "children").iterdir())
    assert [path.name for path in trainings.data.rglob("logprobs/*")] == []  # told, and so removed


def check_rollouts(trainings: Any, report: dict[str, Any]) -> None:
    """Every row leads to its rollout, whose tokens know what training made of them."""
    stored, ratios = records(trainings, report), []
    rows = [row for segment in report["segments"] for row in segment["rows"]]
    assert [row["index"] for row in rows] == list(range(len(stored)))
    assert sum(row.get("admitted", True) for row in rows) == report["metrics"]["rollouts"]
    for row, record in zip(rows, stored, strict=True):
        assert (row["example"], row.get("reward")) == (record.example, record.reward)
        view = RolloutTokens.model_validate(record.extras[TOKENS_KEY])
        (turn,), (tokens,) = view.turns, [one.tokens for one in record.turns]
        assert tokens is not None
        if not turn.versions:  # the model ended its answer at once, as it rarely does: nothing of it is trained
            assert not row.get("admitted", True)
            continue
        assert len(turn.versions) == len(tokens.completion_ids)
        if row.get("admitted", True):
            assert turn.trained == (True,) * len(tokens.completion_ids)
            assert turn.advantages[0] == pytest.approx(row["advantage"], abs=1e-6)
            both = zip(turn.logprobs, tokens.logprobs, strict=True)
            ratios += [math.exp(learner - sampler) for learner, sampler in both]
    assert len(ratios) == report["metrics"]["trained_tokens"]
    assert fmean(ratios) == pytest.approx(report["metrics"]["ratio_mean"], rel=1e-5)


async def test_an_environment_that_fails_half_of_its_rollouts_trains_on_the_rest_and_says_so(trainings: Any) -> None:
    finish = await trainings.finish(**SMALL, env=[{"id": "alice/half-broken"}])
    log = trainings.hub.runs["r0"].log
    assert finish.state == "succeeded", log
    assert "rollouts of half-broken failed (most: " in log
    for step in trainings.steps():
        assert 0.1 < step.failed_share < 0.9
        assert step.trained_tokens > 0
        assert step.environments["half-broken"].failures["environment"] > 0
