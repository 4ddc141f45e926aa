"""What a run is promised on a GPU: steps repeat bitwise where asked, memory that ran out costs nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from tests.bench.gpu_shapes import MIXES, QWEN3, Mix, make_model, samples
from workers.training.journal.batch import StepBatch
from workers.training.learner.directory.config import LearnerConfig, OptimiserConfig
from workers.training.learner.errors import LearnerError, OutOfMemory
from workers.training.learner.model import make_policy
from workers.training.learner.step import Learner
from workers.training.learner.world import World

STEPS = 2
NO_BUDGET = 10**8


def promises(sizes: dict[str, int], mix: Mix, device: torch.device) -> dict[str, Any]:
    """By promise: True, False, or the error."""
    found: dict[str, Any] = {}
    tries: dict[str, Callable[[], bool]] = {
        "repeats bitwise, whole model": lambda: repeats(sizes, mix, device, "full"),
        "repeats bitwise, adapter": lambda: repeats(sizes, mix, device, "lora"),
    }
    if device.type == "cuda":  # a CPU's memory ends the process instead
        tries["memory that ran out changes nothing"] = lambda: survives(QWEN3["0.6B"], MIXES[1], device)
    for name, attempt in tries.items():
        try:
            found[name] = attempt()
        except (RuntimeError, LearnerError) as error:
            found[name] = repr(error)[:500]
    return found


def repeats(sizes: dict[str, int], mix: Mix, device: torch.device, mode: Any) -> bool:
    """Whether two learners that take the same steps end with the same bits."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    try:
        first, second = (trained(sizes, mix, device, mode, mix.budget) for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def survives(sizes: dict[str, int], mix: Mix, device: torch.device) -> bool:
    """Whether a step that did not fit is OutOfMemory, changes no weight, and is trained in smaller micro-batches."""
    learner, batch = begun(sizes, mix, device, "full")
    before = [weight.detach().clone() for weight in learner.masters.named.values()]
    try:
        learner.train(batch, budget=NO_BUDGET)
        return False
    except OutOfMemory:
        same = all(torch.equal(a, b) for a, b in zip(before, learner.masters.named.values(), strict=True))
    # Not in the handler: the error's traceback holds the step's activations.
    return same and learner.train(batch, budget=mix.budget).skipped == ""


def trained(sizes: dict[str, int], mix: Mix, device: torch.device, mode: Any, budget: int) -> list[torch.Tensor]:
    """Weights after STEPS."""
    learner, batch = begun(sizes, mix, device, mode)
    for _ in range(STEPS):
        learner.train(batch, budget=budget)
    return [weight.detach() for weight in learner.masters.named.values()]


def begun(sizes: dict[str, int], mix: Mix, device: torch.device, mode: Any) -> tuple[Learner, StepBatch]:
    """A learner of random weights, the same each time, and a step for it."""
    torch.manual_seed(0)
    config = LearnerConfig(
        mode=mode, dtype="bfloat16", optimiser=OptimiserConfig(learning_rate=1e-4), token_budget=mix.budget
    )
    policy = make_policy(make_model(sizes, device, torch.bfloat16), config)
    rollouts = tuple(samples(mix, vocabulary=sizes["vocab_size"]))
    batch = StepBatch(step=1, samples=rollouts, denominator=float(sum(each.trained for each in rollouts)))
    return Learner(policy, config, World()), batch
