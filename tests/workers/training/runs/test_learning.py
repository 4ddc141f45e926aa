"""The example configurations teach the tiny model to reverse four letters, and only with the right sign."""

from __future__ import annotations

import tomllib
from statistics import fmean
from typing import Any

import pytest

from tests.workers.training.runs.trainings import ROOT, Trainings, tiny_model
from workers.training.coordinator import credit
from workers.training.credit.group import credit_group

pytestmark = [pytest.mark.matrix, pytest.mark.sandbox, pytest.mark.torch]
CONFIGS = ROOT / "environments" / "reverse-text" / "configs" / "train"


def recipe(name: str, **changes: Any) -> dict[str, Any]:
    """A shipped configuration, as this hub knows its environment; evaluated on all held-out rows, first and last."""
    config = tomllib.loads((CONFIGS / name).read_text())
    environments = [table | {"id": "alice/reverse-text"} for table in config["env"]]
    evaluation = config["eval"] | {"interval": 1000, "num_examples": 200}
    evaluation["env"] = [table | {"id": "alice/reverse-text"} for table in evaluation["env"]]
    return {**config, "env": environments, "eval": evaluation, **changes}


def exact(trainings: Trainings) -> list[float]:
    """Exact match on held-out rows, sampled at temperature 1: before and after."""
    return [point.metrics["exact_match"] for point in trainings.evaluations()]


@pytest.mark.parametrize(("name", "reached"), [("reverse-text-full.toml", 0.8), ("reverse-text.toml", 0.6)])
async def test_the_held_out_score_rises(trainings: Trainings, name: str, reached: float) -> None:
    trainings.model = tiny_model()
    finish = await trainings.finish(**recipe(name))
    assert finish.state == "succeeded", trainings.hub.runs["r0"].log
    before, after = exact(trainings)
    assert before < 0.2
    assert after > reached, [before, after, *(step.reward_mean for step in trainings.steps())]


async def test_with_the_sign_of_the_advantage_flipped_it_unlearns(
    trainings: Trainings, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainings.model = tiny_model()
    plain = credit_group
    monkeypatch.setattr(
        credit, "credit_group", lambda *given: tuple(None if one is None else -one for one in plain(*given))
    )
    finish = await trainings.finish(**recipe("reverse-text-full.toml", max_steps=12))
    assert finish.state == "succeeded", trainings.hub.runs["r0"].log
    rewards = [step.reward_mean or 0.0 for step in trainings.steps()]
    assert fmean(rewards[-3:]) < fmean(rewards[:3])
    _, after = exact(trainings)
    assert after < 0.2
