"""The fused head against finite differences and plain autograd, in float64."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from workers.training.learner.directory.config import LossConfig, LossName
from workers.training.learner.head import Targets, head_loss

pytestmark = pytest.mark.torch
TOKENS, HIDDEN, WORDS = 11, 6, 17


def targets(dtype: torch.dtype = torch.float64) -> Targets:
    torch.manual_seed(1)
    return Targets(
        labels=torch.randint(WORDS, (TOKENS,)),
        logmu=-2.8 + 0.2 * torch.randn(TOKENS).to(dtype),
        advantages=torch.randn(TOKENS).to(dtype),
        inv_temperature=(0.5 + torch.rand(TOKENS)).to(dtype),
        scale=torch.rand(TOKENS).to(dtype) / TOKENS,
        sequence=torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2]),
    )


def inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(TOKENS, HIDDEN).to(dtype), torch.randn(WORDS, HIDDEN).to(dtype)


@pytest.mark.parametrize("name", ["dapo", "cispo", "dppo_kl", "reinforce", "gspo"])
def test_gradients_are_the_loss_functions_slopes(name: LossName) -> None:
    """Finite differences. cispo holds its weight constant, so its loss is not what its gradient descends: reinforce's
    loss with the weight as advantage is.
    """
    (hidden, weight), of = inputs(), targets()
    config = LossConfig(name=name, clip_high=5)
    if name == "gspo":  # one weight a sequence, as all of them have
        of = replace(of, scale=of.scale[of.sequence])
    dweight = torch.zeros_like(weight)
    output = head_loss(hidden, weight, of, config, chunk=4, dweight=dweight)
    if name == "cispo":
        of = replace(of, advantages=-output.token.dlogp)
        config = LossConfig(name="reinforce")
    for array, gradient in ((hidden, output.dhidden), (weight, dweight)):
        for place in range(0, array.numel(), 7):
            change, flat = 1e-6, array.view(-1)
            flat[place] += change
            above = head_loss(hidden, weight, of, config, chunk=4, dweight=None).loss
            flat[place] -= 2 * change
            below = head_loss(hidden, weight, of, config, chunk=4, dweight=None).loss
            flat[place] += change
            assert gradient.view(-1)[place].item() == pytest.approx(((above - below) / (2 * change)).item(), abs=2e-9)


def test_log_probabilities_and_entropy_are_at_the_samplers_temperature() -> None:
    (hidden, weight), of = inputs(), targets()
    output = head_loss(hidden, weight, of, LossConfig(), chunk=3, dweight=None)
    logq = torch.log_softmax((hidden @ weight.t()) * of.inv_temperature[:, None], -1)
    torch.testing.assert_close(output.logp, logq.gather(1, of.labels[:, None])[:, 0])
    torch.testing.assert_close(output.entropy, -(logq.exp() * logq).sum(-1))


@pytest.mark.parametrize("chunk", [1, 2, 5, 11, 100])
def test_chunks_change_nothing(chunk: int) -> None:
    (hidden, weight), of = inputs(), targets()
    whole, part = torch.zeros_like(weight), torch.zeros_like(weight)
    a = head_loss(hidden, weight, of, LossConfig(), chunk=TOKENS, dweight=whole)
    b = head_loss(hidden, weight, of, LossConfig(), chunk=chunk, dweight=part)
    torch.testing.assert_close((a.loss, a.dhidden, whole), (b.loss, b.dhidden, part), rtol=1e-13, atol=1e-14)


def test_a_frozen_head_gives_the_same_hidden_gradient() -> None:
    (hidden, weight), of = inputs(), targets()
    trained = head_loss(hidden, weight, of, LossConfig(), chunk=4, dweight=torch.zeros_like(weight))
    frozen = head_loss(hidden, weight, of, LossConfig(), chunk=4, dweight=None)
    assert torch.equal(trained.dhidden, frozen.dhidden)


def test_bf16_heads_sum_their_gradient_in_fp32() -> None:
    """Many equal small parts: summed in bf16 they would stop growing."""
    weight = torch.zeros(2, 1, dtype=torch.bfloat16)
    hidden = torch.full((1024, 1), 0.01, dtype=torch.bfloat16)
    ones = torch.ones(1024)
    of = Targets(ones.long() * 0, ones * -0.6931, ones, ones, ones, ones.long())
    dweight = torch.zeros(2, 1)
    head_loss(hidden, weight, of, LossConfig(name="reinforce"), chunk=1, dweight=dweight)
    assert dweight[0].item() == pytest.approx(-1024 * 0.01 * 0.5, rel=3e-3)


def test_a_bf16_heads_temperature_is_the_samplers() -> None:
    """1 / 0.6 in bf16 is 1.664: a logit of 32 would always be 0.08 too small."""
    weight = torch.tensor([[4.0], [0.0]], dtype=torch.bfloat16)
    hidden, ones = torch.full((1, 1), 8.0, dtype=torch.bfloat16), torch.ones(1)
    of = Targets(ones.long(), ones, ones, ones / 0.6, ones, ones.long())
    output = head_loss(hidden, weight, of, LossConfig(name="reinforce"), chunk=1, dweight=None)
    assert output.logp.item() == pytest.approx(-32 / 0.6, abs=1e-4)


def test_no_targets_have_no_loss() -> None:
    hidden, weight = inputs()
    nothing = targets().part(slice(0, 0))
    output = head_loss(hidden[:0], weight, nothing, LossConfig(name="gspo"), chunk=4, dweight=torch.zeros_like(weight))
    assert output.loss == 0
    assert output.dhidden.shape == (0, HIDDEN)
