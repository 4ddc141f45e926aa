"""The hub's token view marks the tokens that the losses cut off."""

from __future__ import annotations

import math

import pytest
import torch
from envhub.protocol.training.trainer import LOSS_PARAMETERS, Loss, TrainerTable

from hub.training.ratio_bounds import RatioBounds
from workers.training.learner.directory.config import LossConfig
from workers.training.learner.losses import TOKEN_LOSSES

pytestmark = pytest.mark.torch
GRID = [
    (math.log(after), math.log(before), advantage)
    for after in (0.001, 0.05, 0.11, 0.3, 0.5, 0.9)
    for before in (0.01, 0.1, 0.3, 0.5, 0.95)
    for advantage in (-1.0, 0.0, 0.5)
]


@pytest.mark.parametrize("loss", [loss for loss in Loss if loss is not Loss.GSPO])
def test_as_the_learner_does(loss: Loss) -> None:
    learner, sampler, advantage = (torch.tensor(column, dtype=torch.float64) for column in zip(*GRID, strict=True))
    config = LossConfig.model_validate({"name": loss.value, **LOSS_PARAMETERS[loss]})
    masked = TOKEN_LOSSES[config.name](learner, sampler, advantage, config).masked.tolist()
    bounds = RatioBounds.of(TrainerTable(loss=loss).model_dump(mode="json"))
    assert [bounds.cut(*one) for one in GRID] == masked
    assert any(masked) == (loss is not Loss.REINFORCE)


@pytest.mark.parametrize("loss", list(Loss))
def test_every_loss_says_its_bounds(loss: Loss) -> None:
    assert loss.value in RatioBounds.of(TrainerTable(loss=loss).model_dump(mode="json")).text
