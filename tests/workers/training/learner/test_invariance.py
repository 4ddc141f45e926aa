"""However a step is cut into micro-batches, its gradient is the same."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workers.training.learner.making import VOCABULARY, model, sample, samples
from tests.workers.training.learner.oracle import exact
from tests.workers.training.learner.test_oracle import distance, ours
from workers.training.learner.directory.config import LearnerConfig, LossConfig, LossName
from workers.training.samples.sample import Sample

pytestmark = pytest.mark.torch
PACKINGS: list[dict[str, Any]] = [
    {"budget": 40, "share_prefixes": False},
    {"budget": 40, "share_prefixes": True},
    {"budget": 1000, "share_prefixes": False},
    {"budget": 1000, "share_prefixes": True, "min_shared": 1},
]


@pytest.mark.parametrize("name", ["dapo", "gspo"])
@pytest.mark.parametrize("packing", PACKINGS, ids=str)
def test_budgets_and_shared_prefixes_change_nothing(packing: dict[str, Any], name: LossName) -> None:
    config = LearnerConfig(mode="full", loss=LossConfig(name=name))
    one = ours(model(), samples(), 40.0, config, budget=80, share_prefixes=False)
    other = ours(model(), samples(), 40.0, config, **packing)
    assert other[0] == pytest.approx(one[0], rel=1e-5)
    assert distance(other[1], one[1]) < 1e-6


def test_the_order_of_samples_changes_nothing() -> None:
    config, of = LearnerConfig(mode="full"), list(samples())
    one = ours(model(), of, 40.0, config)
    random.Random(3).shuffle(of)
    assert distance(ours(model(), of, 40.0, config)[1], one[1]) < 1e-6


@st.composite
def steps(draw: st.DrawFn) -> tuple[Sample, ...]:
    """Groups of any shape: one-token completions, environment tokens, samples with nothing to train."""
    rng = random.Random(draw(st.integers(0, 10**6)))
    made = []
    for group in range(draw(st.integers(1, 3))):
        prompt = [rng.randrange(VOCABULARY) for _ in range(draw(st.integers(1, 12)))]
        for index in range(draw(st.integers(1, 3))):
            train = draw(st.lists(st.booleans(), max_size=8))
            ids = prompt + [rng.randrange(VOCABULARY) for _ in train]
            flags = [False] * len(prompt) + train
            made.append(sample(ids, flags, advantage=rng.gauss(0, 1), group=group, index=index))
    return tuple(made)


@given(steps(), st.integers(20, 90), st.booleans(), st.integers(1, 12))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_step_cut_anyhow_has_one_gradient(of: tuple[Sample, ...], budget: int, share: bool, shortest: int) -> None:
    torch.set_num_threads(1)
    config = LearnerConfig(mode="full", loss=LossConfig(name="dapo"))
    one = ours(exact(model(num_hidden_layers=1)), of, 7.0, config, budget=1000, share_prefixes=False)
    packing = {"budget": budget, "share_prefixes": share, "min_shared": shortest}
    other = ours(exact(model(num_hidden_layers=1)), of, 7.0, config, **packing)
    assert other[0] == pytest.approx(one[0], rel=1e-9, abs=1e-12)
    if any(each.trained for each in of):
        assert distance(other[1], one[1]) < 1e-10
