"""One optimiser step: schedule, clipping, steps that cannot be taken, running out of memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.workers.training.learner.making import batch, model, sample, samples
from workers.training.journal.batch import StepBatch
from workers.training.learner import step as module
from workers.training.learner.directory.budget import Budgets
from workers.training.learner.directory.config import LearnerConfig, OptimiserConfig
from workers.training.learner.errors import NotFinite, OutOfMemory
from workers.training.learner.gradients import add_gradients
from workers.training.learner.head import HeadOutput
from workers.training.learner.model import make_policy
from workers.training.learner.optimiser import learning_rate
from workers.training.learner.step import Learner
from workers.training.learner.world import World

pytestmark = pytest.mark.torch


def learner(**optimiser: Any) -> Learner:
    config = LearnerConfig(mode="full", optimiser=OptimiserConfig(**({"learning_rate": 1e-2} | optimiser)))
    return Learner(make_policy(model(), config), config, World())


def weights(of: Learner) -> Tensor:
    return torch.cat([p.detach().flatten().clone() for p in of.masters.named.values()])


def broken(step: int) -> StepBatch:
    """A batch whose loss is not a number."""
    first, *rest = samples(seed=step)
    return batch(step, [replace(first, advantages=first.advantages * np.float32("nan")), *rest])


def test_learning_rates_warm_up_and_fall() -> None:
    config = OptimiserConfig(learning_rate=8.0, warmup_steps=3, decay="linear")
    assert [learning_rate(config, step, 7) for step in range(1, 9)] == [2, 4, 6, 8, 6, 4, 2, 0]
    cosine = OptimiserConfig(learning_rate=8.0, decay="cosine")
    assert [round(learning_rate(cosine, step, 4), 3) for step in range(1, 6)] == [8, 6.828, 4, 1.172, 0]


def test_a_step_moves_the_weights_and_says_how() -> None:
    made = learner()
    before = weights(made)
    report = made.train(batch(1, samples()), budget=100)
    assert not torch.equal(before, weights(made))
    assert report.trained_tokens == sum(each.trained for each in samples())
    assert (report.step, report.version, report.skipped, report.micro_batches) == (1, 1, "", 1)
    assert report.kl is not None
    assert report.kl > 0
    assert report.grad_norm is not None


def test_a_shared_prefix_is_forwarded_once() -> None:
    report = learner().train(batch(1, samples()), budget=1000)
    assert report.tokens < sum(len(each) for each in samples()) / 2


def test_adams_first_step_is_the_learning_rate_whatever_the_norm() -> None:
    made = learner(max_grad_norm=1e-3, epsilon=1e-12)
    before = weights(made)
    made.train(batch(1, samples()), budget=1000)
    assert (weights(made) - before).abs().max().item() == pytest.approx(1e-2, rel=1e-2)


def test_what_is_not_finite_is_skipped_and_the_third_in_a_row_ends_the_run() -> None:
    made = learner()
    before = weights(made)
    assert made.train(broken(1), budget=100).skipped == "not_finite"
    assert made.train(broken(2), budget=100).loss is None
    assert torch.equal(before, weights(made))
    with pytest.raises(NotFinite, match="3 steps in a row"):
        made.train(broken(3), budget=100)


def test_a_good_step_between_forgives() -> None:
    made = learner()
    for step in (1, 2):
        made.train(broken(step), budget=100)
    made.train(batch(3, samples()), budget=100)
    assert made.train(broken(4), budget=100).skipped == "not_finite"


def test_a_batch_without_trained_tokens_moves_nothing() -> None:
    made = learner(weight_decay=0.5)
    before = weights(made)
    report = made.train(StepBatch(step=1, samples=(sample([1, 2], [False, False]),), denominator=0.0), budget=100)
    assert report.skipped == "empty"
    assert (made.step, torch.equal(before, weights(made))) == (1, True)


def test_running_out_of_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made, plain = learner(), learner()
    real, calls = add_gradients, 0

    def short(*given: Any, **named: Any) -> HeadOutput:
        nonlocal calls
        calls += 1
        if calls == 2:
            torch.empty(1 << 60, dtype=torch.uint8)  # what the allocator really says
        return real(*given, **named)

    monkeypatch.setattr(module, "add_gradients", short)
    with pytest.raises(OutOfMemory):
        made.train(batch(1, samples()), budget=60)
    made.train(batch(1, samples()), budget=60)
    monkeypatch.undo()
    plain.train(batch(1, samples()), budget=60)
    assert torch.equal(weights(made), weights(plain))


@pytest.mark.parametrize(
    ("text", "is_it"),
    [
        ("CUDA error: out of memory", True),
        ("Triton Error [CUDA]: out of memory", True),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", True),
        ("CUDA error: an illegal memory access was encountered", False),
    ],
)
def test_a_gpus_libraries_say_in_words_that_memory_ran_out(text: str, is_it: bool) -> None:
    assert module.is_out_of_memory(RuntimeError(text)) == is_it


def test_a_halved_budget_is_remembered_from_its_step_on(tmp_path: Path) -> None:
    assert Budgets(tmp_path / "budgets.jsonl", 64).halve(5) == 32
    again = Budgets(tmp_path / "budgets.jsonl", 64)
    assert [again.at(step) for step in (1, 4, 5, 9)] == [64, 64, 32, 32]


def test_processes_that_halve_it_at_once_halve_it_once(tmp_path: Path) -> None:
    ranks = [Budgets(tmp_path / "budgets.jsonl", 64) for _ in range(3)]
    assert [rank.halve(5) for rank in ranks] == [32, 32, 32]
    assert Budgets(tmp_path / "budgets.jsonl", 64).at(5) == 32
