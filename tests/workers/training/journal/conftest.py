"""Batches to write, and a way to compare them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.factories.training import build_sample
from workers.training.journal.batch import StepBatch
from workers.training.samples.sample import Sample

Compare = Callable[[StepBatch, StepBatch], None]
Make = Callable[[int], StepBatch]


@pytest.fixture
def batch_of() -> Make:
    def make(step: int) -> StepBatch:
        samples = (
            build_sample([step, 2, 3], [1, 2], group=step, inv_temperature=1 / 0.7, weight=1 / 3),
            build_sample([4], [], group=step, index=1, branch=1),
            build_sample([5, 6], [1], group=2**40, index=2),
        )
        return StepBatch(step, samples, 3.0, {"rewards": {"b": 0.1, "a": [None, "ü"]}})

    return make


@pytest.fixture
def assert_same() -> Compare:
    def compare(one: StepBatch, other: StepBatch) -> None:
        assert (one.step, one.denominator, one.meta) == (other.step, other.denominator, other.meta)
        assert len(one.samples) == len(other.samples)
        for left, right in zip(one.samples, other.samples, strict=True):
            _compare(left, right)

    return compare


def _compare(left: Sample, right: Sample) -> None:
    for name in ("rollout", "branch", "inv_temperature", "weight"):
        assert getattr(left, name) == getattr(right, name)
    for name in ("ids", "train", "logprobs", "advantages", "versions", "turns"):
        one, other = getattr(left, name), getattr(right, name)
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
