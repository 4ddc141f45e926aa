"""Every loss, mode and schedule of the run's configuration is one that the learner knows."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from envhub.protocol.training.config import TrainingConfig
from envhub.protocol.training.trainer import LOSS_PARAMETERS, Loss

from workers.training.learner.directory.config import LossName
from workers.training.placement import Placement
from workers.training.supervise.learner_config import learner_config


def made(**trainer: Any) -> Any:
    config = TrainingConfig.model_validate({"model": "hub/tiny", "env": [{"id": "a/b"}], "trainer": trainer})
    return learner_config(config, initial_adapter=None, threads=1, placement=Placement())


@pytest.mark.parametrize("loss", list(Loss))
def test_each_loss_keeps_its_numbers(loss: Loss) -> None:
    numbers = {name: value / 2 for name, value in LOSS_PARAMETERS[loss].items()}
    learner = made(loss=loss.value, loss_params=numbers)
    assert learner.loss.name == loss.value
    assert {name: getattr(learner.loss, name) for name in numbers} == numbers


def test_the_losses_have_the_names_that_users_know() -> None:
    names = {"grpo", "dapo", "cispo", "dr_grpo", "gspo", "dppo_kl", "reinforce"}
    assert {made(loss=name).loss.name for name in names} == names == set(get_args(LossName))


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_each_schedule_is_known(schedule: str) -> None:
    assert made(schedule=schedule).optimiser.decay == schedule


@pytest.mark.parametrize(
    ("asked", "told"),
    [({}, {"deterministic": False, "dtype": None, "recompute": None}),
     ({"deterministic": True}, {"deterministic": True, "widens": False}),
     ({}, {"widens": True}), ({"token_budget": 4096}, {"widens": False, "token_budget": 4096}),
     ({"activation_checkpointing": True}, {"recompute": True}),
     ({"activation_checkpointing": False}, {"recompute": False}),
     ({"dtype": "float32"}, {"dtype": "float32"}), ({"dtype": "bfloat16"}, {"dtype": "bfloat16"})],
)  # fmt: skip
def test_what_is_asked_for_reaches_the_learner(asked: dict[str, Any], told: dict[str, Any]) -> None:
    learner = made(**asked)
    assert {name: getattr(learner, name) for name in told} == told


def test_a_micro_batch_holds_the_longest_sample() -> None:
    assert made(seq_len=20_000).token_budget == 20_000


@pytest.mark.parametrize(("ahead", "kept"), [(0, 8), (4, 8), (8, 11), (20, 23)])
def test_versions_are_kept_until_they_are_served(ahead: int, kept: int) -> None:
    assert made(max_off_policy=ahead).checkpoint.keep_weights == kept
