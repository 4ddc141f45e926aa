"""A whole step's loss and gradients against the oracle."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from tests.workers.training.learner.making import model, samples
from tests.workers.training.learner.oracle import exact, oracle_step
from workers.training.credit.normalisation import normalise
from workers.training.learner.batches import to_device
from workers.training.learner.directory.config import LearnerConfig, LoraConfig, LossConfig, LossName
from workers.training.learner.gradients import add_gradients
from workers.training.learner.masters import Masters
from workers.training.learner.model import make_policy
from workers.training.packing.plan import PackingOptions, pack_step

pytestmark = pytest.mark.torch


def ours(
    made: Any, of: Any, denominator: float, config: LearnerConfig, **packing: Any
) -> tuple[float, dict[str, Tensor]]:
    """Loss and gradients of the learner's own step."""
    policy = make_policy(made, config)
    masters, loss = Masters(policy.trained()), 0.0
    options: dict[str, Any] = {"budget": 100, "share_prefixes": True} | packing
    (batches,) = pack_step(of, PackingOptions(**options))
    precise = policy.head.dtype if policy.head.dtype == torch.float64 else torch.float32
    for batch in batches:
        placed = to_device(batch, denominator=denominator, device=policy.device, precise=precise)
        loss += add_gradients(policy, masters, placed, config.loss, chunk=5).loss.item()
    return loss, {name: p.grad for name, p in masters.named.items() if p.grad is not None}


def distance(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """Relative distance of two gradients."""
    assert a.keys() == b.keys()
    apart = sum(float((a[name].double() - b[name].double()).square().sum()) for name in a)
    size = sum(float(each.double().square().sum()) for each in b.values())
    return float((apart / size) ** 0.5) if apart else 0.0


@pytest.mark.parametrize("name", get_args(LossName))
def test_loss_and_gradients_in_float64(name: LossName) -> None:
    kind = {"grpo": "sequence", "gspo": "sequence", "dr_grpo": "constant"}.get(name, "token")
    of, denominator = normalise(samples(), kind, constant=64)  # type: ignore[arg-type]
    loss = LossConfig(name=name, clip_low=0.1, clip_high=5 if name == "cispo" else 0.1)
    wanted = oracle_step(exact(model()), of, denominator, loss)
    got = ours(exact(model()), of, denominator, LearnerConfig(mode="full", loss=loss))
    assert got[0] == pytest.approx(wanted[0], rel=1e-12)
    assert distance(got[1], wanted[1]) < 1e-12


@pytest.mark.parametrize("tied", [False, True])
def test_in_float32_only_rounding_is_left(tied: bool) -> None:
    of, denominator = normalise(samples(), "token")
    wanted = oracle_step(exact(model(tied=tied)), of, denominator, LossConfig())
    got = ours(model(tied=tied), of, denominator, LearnerConfig(mode="full"))
    assert got[0] == pytest.approx(wanted[0], rel=2e-6)
    assert distance(got[1], wanted[1]) < 2e-6


def test_bf16_weights_with_fp32_masters_stay_near() -> None:
    of, denominator = normalise(samples(), "token")
    wanted = oracle_step(exact(model().bfloat16()), of, denominator, LossConfig(name="reinforce"))
    got = ours(model().bfloat16(), of, denominator, LearnerConfig(mode="full", loss=LossConfig(name="reinforce")))
    assert all(gradient.dtype == torch.float32 for gradient in got[1].values())
    assert distance(got[1], wanted[1]) < 5e-2


def test_adapters_get_the_gradient_of_the_merged_model() -> None:
    of, denominator = normalise(samples(), "token")
    config = LearnerConfig(mode="lora", lora=LoraConfig(rank=4, alpha=6))
    merged = oracle_step(exact(model()), of, denominator, config.loss)[1]
    made = exact(model())
    got = ours(made, of, denominator, config)[1]
    adapter = made.model.layers[1].mlp.up_proj
    wanted = 1.5 * merged["model.layers.1.mlp.up_proj.weight"] @ adapter.down.detach().t()
    torch.testing.assert_close(got["model.layers.1.mlp.up_proj.up"], wanted, rtol=1e-10, atol=1e-14)
    assert not any(name.endswith("weight") for name in got)
