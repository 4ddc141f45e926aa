"""Values worked by hand, and every closed-form derivative against autograd's."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from workers.training.learner.directory.config import LossConfig, LossName
from workers.training.learner.losses import TOKEN_LOSSES, cispo, clipped, dppo_kl, gspo, reinforce

pytestmark = pytest.mark.torch
DAPO = LossConfig(name="dapo", clip_low=0.2, clip_high=0.3)


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def textbook(name: LossName, logp: Tensor, logmu: Tensor, advantage: Tensor, sequence: Tensor, c: LossConfig) -> Tensor:
    """The losses as papers write them, for autograd."""
    ratio = torch.exp(logp - logmu)
    if name == "gspo":
        means = torch.stack([(logp - logmu)[sequence == s].mean() for s in sequence.unique()])
        ratio = torch.exp(means)[sequence]
    if name == "cispo":
        return -ratio.clamp(max=c.clip_high).detach() * advantage * logp
    if name == "reinforce":
        return -advantage * logp
    if name == "dppo_kl":
        moved = (logp.exp() - logmu.exp()).detach()
        drop = ((advantage > 0) & (moved > c.mask_high)) | ((advantage <= 0) & (moved < -c.mask_low))
        return -(~drop).double() * c.adv_tau * advantage * ratio + c.kl_tau * (logp - logmu) ** 2
    return -torch.min(ratio * advantage, ratio.clamp(1 - c.clip_low, 1 + c.clip_high) * advantage)


def test_clipping_cuts_off_what_moved_too_far_the_advantages_way() -> None:
    logmu, ratios = column(-2, -2, -2, -2), column(1.5, 1.5, 0.5, 0.5)
    token = clipped(logmu + ratios.log(), logmu, column(2, -2, 2, -2), DAPO)
    assert token.loss.tolist() == pytest.approx([-2.6, 3.0, -1.0, 1.6])
    assert token.dlogp.tolist() == pytest.approx([0, 3.0, -1.0, 0])
    assert token.masked.tolist() == [True, False, False, True]


def test_cispo_caps_the_weight_and_still_teaches() -> None:
    token = cispo(column(math.log(0.6)), column(math.log(0.2)), column(1.5), LossConfig(clip_high=2))
    assert token.dlogp.tolist() == pytest.approx([-3.0])
    assert token.loss.tolist() == pytest.approx([-3.0 * math.log(0.6)])


def test_dppo_drops_by_probability_and_keeps_its_divergence_term() -> None:
    logp, logmu = column(0.5, 0.5).log(), column(0.2, 0.45).log()
    token = dppo_kl(logp, logmu, column(1, 1), LossConfig(name="dppo_kl", kl_tau=0.1))
    far, near = math.log(2.5), math.log(0.5 / 0.45)
    assert token.masked.tolist() == [True, False]
    assert token.loss.tolist() == pytest.approx([0.1 * far**2, 0.1 * near**2 - 0.5 / 0.45])
    assert token.dlogp.tolist() == pytest.approx([0.2 * far, 0.2 * near - 0.5 / 0.45])


def test_reinforce_ignores_the_sampler() -> None:
    token = reinforce(column(-1.0), column(-9.0), column(0.5), LossConfig(name="reinforce"))
    assert (token.loss.item(), token.dlogp.item()) == pytest.approx((0.5, -0.5))


@pytest.mark.parametrize("name", [*TOKEN_LOSSES, "gspo"])
@pytest.mark.parametrize("seed", range(5))
def test_derivatives_are_those_of_the_textbook_formula(name: LossName, seed: int) -> None:
    torch.manual_seed(seed)
    config = LossConfig(name=name, clip_low=0.1, clip_high=0.15, mask_low=0.05, mask_high=0.05)
    sequence = torch.tensor([0] * 5 + [1] + [2] * 14)
    logp = (-torch.rand(20, dtype=torch.float64) * 2).requires_grad_()
    logmu, advantage = logp.detach() + 0.3 * torch.randn(20).double(), torch.randn(3).double()[sequence]
    token = (
        gspo(logp.detach(), logmu, advantage, sequence, config)
        if name == "gspo"
        else TOKEN_LOSSES[name](logp.detach(), logmu, advantage, config)
    )
    wanted = textbook(name, logp, logmu, advantage, sequence, config)
    wanted.sum().backward()
    assert logp.grad is not None
    torch.testing.assert_close(token.loss, wanted.detach(), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(token.dlogp, logp.grad, rtol=1e-12, atol=1e-13)
