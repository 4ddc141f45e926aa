"""A three-armed bandit: the mean of many estimates is the policy gradient, which is known in closed form.

One hidden state h = 1 and a head of three weights: pi = softmax(w), and d E[reward] / d w_a = pi_a (r_a - E[reward]).
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from workers.training.learner.directory.config import LossConfig, LossName
from workers.training.learner.head import Targets, head_loss

pytestmark = pytest.mark.torch
W = torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64)
STALE = torch.tensor([0.0, 0.4, 0.1], dtype=torch.float64)
REWARDS = torch.tensor([1.0, 0.2, 0.5], dtype=torch.float64)
DRAWS = 40_000
WIDE = 1e9  # no clipping


def exact() -> Tensor:
    pi = W.softmax(0)
    return pi * (REWARDS - (pi * REWARDS).sum())


def estimates(sampler: Tensor, name: LossName, *, group: int | None = None) -> Tensor:
    """[DRAWS, 3]: the ascent direction by each draw. group: subtract the mean of groups of that size."""
    generator = torch.Generator().manual_seed(7)
    logmu = torch.log_softmax(sampler, 0)
    arms = torch.multinomial(logmu.exp(), DRAWS, replacement=True, generator=generator)
    advantages = REWARDS[arms]
    if group is not None:
        advantages = (advantages.view(-1, group) - advantages.view(-1, group).mean(1, keepdim=True)).flatten()
    ones = torch.ones(DRAWS, dtype=torch.float64)
    targets = Targets(arms, logmu[arms], advantages, ones, ones / DRAWS, arms)
    dweight = torch.zeros(3, 1, dtype=torch.float64)
    config = LossConfig(name=name, clip_low=1.0, clip_high=WIDE)
    output = head_loss(ones[:, None], W[:, None], targets, config, chunk=DRAWS, dweight=dweight)
    each = -output.token.dlogp[:, None] * (torch.eye(3, dtype=torch.float64)[arms] - W.softmax(0))
    torch.testing.assert_close(each.mean(0), -dweight[:, 0])  # the head's own sum is what is tested
    return each


def assert_unbiased(each: Tensor, wanted: Tensor) -> None:
    """Within four standard errors."""
    error = each.std(0) / DRAWS**0.5
    assert ((each.mean(0) - wanted).abs() < 4 * error).all()


@pytest.mark.parametrize("name", ["reinforce", "dapo"])
def test_on_policy_it_is_the_policy_gradient(name: LossName) -> None:
    assert_unbiased(estimates(W, name), exact())


@pytest.mark.parametrize("name", ["dapo", "cispo"])
def test_the_ratio_corrects_for_a_stale_sampler(name: LossName) -> None:
    assert_unbiased(estimates(STALE, name), exact())


def test_without_the_ratio_a_stale_sampler_biases() -> None:
    each = estimates(STALE, "reinforce")
    assert ((each.mean(0) - exact()).abs() > 8 * each.std(0) / DRAWS**0.5).any()


def test_a_groups_mean_shrinks_it_by_one_part_in_the_groups_size() -> None:
    assert_unbiased(estimates(W, "dapo", group=8), exact() * 7 / 8)
