"""The memory plan's formula against what autograd really keeps; recomputed layers change no bit."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest
import torch
from envhub.protocol.training.shapes import ModelShape, shape_of_config
from torch import Tensor

from tests.workers.training.learner.making import batch, model, samples
from workers.training.learner.batches import to_device
from workers.training.learner.directory.config import LearnerConfig
from workers.training.learner.model import Policy, make_policy
from workers.training.learner.recompute import recompute_layers
from workers.training.learner.step import Learner
from workers.training.learner.world import World
from workers.training.memory_plan import MOST_TOKENS, Training, layer_bytes, plan_memory, predict, widest_budget
from workers.training.packing.plan import PackingOptions, pack_step

pytestmark = pytest.mark.torch
TARGETS = LearnerConfig().lora.target_modules


def kept_bytes(policy: Policy) -> float:
    """Bytes a token that autograd keeps after the body's forward, weights aside."""
    ((packed,),) = pack_step(samples(), PackingOptions(budget=1000))
    placed = to_device(packed, denominator=1, device=policy.device, precise=torch.float32)
    weights = {p.untyped_storage().data_ptr() for p in policy.model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        policy.hidden(placed.ids, placed.positions, placed.packed)
    return sum(kept.values()) / len(placed.ids)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("mode", ["full", "lora"])
def test_a_layer_keeps_what_the_formula_says(mode: str, dtype: torch.dtype) -> None:
    def kept(layers: int) -> float:
        made = model(num_hidden_layers=layers, hidden_size=128, intermediate_size=320, head_dim=32).to(dtype)
        with mock.patch("workers.training.learner.model.use_fused_kernels"):  # they keep less
            return kept_bytes(make_policy(made, LearnerConfig(mode=mode)))  # type: ignore[arg-type]

    shape = shape_of_config(model(hidden_size=128, intermediate_size=320, head_dim=32).config.to_dict())
    assert shape is not None
    training = Training(0 if mode == "full" else 16, TARGETS, dtype.itemsize, 1, 1)
    assert layer_bytes(shape, training) == pytest.approx(kept(3) - kept(2), rel=0.05)


def test_layers_are_recomputed_only_as_far_as_memory_demands() -> None:
    shape = ModelShape(2560, 36, 32, 8, 128, 9728, 151_936, True)  # 4B
    training = Training(rank=16, targets=TARGETS, width=2, token_budget=16_384, head_chunk=1024)
    plenty, short, none = (plan_memory(shape, training, available=size * 10**9) for size in (200, 40, 5))
    assert (plenty.recompute, plenty.fits) == (0, True)
    assert 0 < short.recompute < 36
    assert short.fits
    assert short.total < 36 * 10**9
    assert (none.recompute, none.fits) == (36, False)


def test_micro_batches_are_as_wide_as_memory_allows_without_more_recomputation() -> None:
    shape = ModelShape(1024, 28, 16, 8, 128, 3072, 151_936, True)  # 0.6B
    training = Training(rank=16, targets=TARGETS, width=2, token_budget=8192, head_chunk=1024)
    for gigabytes, recompute in ((80, 0), (80, 28), (24, 0)):
        room = gigabytes * 10**9
        budget = widest_budget(shape, training, recompute=recompute, available=room)
        more = predict(shape, replace(training, token_budget=budget + 2048), recompute=recompute, available=room)
        assert predict(shape, replace(training, token_budget=budget), recompute=recompute, available=room).fits
        assert budget == MOST_TOKENS or not more.fits
    assert widest_budget(shape, training, recompute=0, available=10**9) == 8192


@pytest.mark.parametrize("mode", ["full", "lora"])
def test_recomputed_layers_make_the_same_step(mode: str) -> None:
    config = LearnerConfig(mode=mode)  # type: ignore[arg-type]
    made = []
    for count in (0, 1, 2):
        policy = make_policy(model(), config)
        recompute_layers(policy, count)
        if count == 2:
            assert kept_bytes(policy) < kept_bytes(make_policy(model(), config)) / 5
        learner = Learner(policy, config, World())
        learner.train(batch(1, samples()), budget=100)
        made.append(torch.cat([p.detach().flatten() for p in learner.masters.named.values()]))
    assert torch.equal(made[0], made[1])
    assert torch.equal(made[0], made[2])
