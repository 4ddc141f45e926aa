"""The FLOPs that bench_gpu divides by are the study's: thousand millions for a token, all of them trained."""

from __future__ import annotations

import numpy as np
import pytest

from tests.bench.gpu_shapes import QWEN3, one, shape_of
from tests.bench.gpu_speed import flops_per_token
from workers.training.samples.rollout import RolloutKey

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(("model", "full", "lora"), [("0.6B", 5.0, 3.8), ("1.7B", 11.7, 8.3), ("4B", 27.8, 19.7)])
def test_a_tokens_flops_are_those_of_the_formula(model: str, full: float, lora: float) -> None:
    rollout = one(np.zeros(4096, np.int32), 1, 1.0, 0.0, RolloutKey(0, 0))
    found = [flops_per_token(shape_of(QWEN3[model]), mode, [rollout]) / 1e9 for mode in ("full", "lora")]
    assert found == pytest.approx([full, lora], abs=0.06)
