"""How fast the learner trains on this machine, what share of its matrix units that is, and where the time goes.

FLOPs of a token's forward and backward (Kaplan et al. 2020, 2.1; recomputation is not counted, nor are adapters):
whole model 6 N, LoRA 4 N (frozen matrices have no gradient of their own), and 6 L h d S for causal attention, half of
what full attention takes. N: weights of the layers, and of the head as far as tokens are trained; L layers, h heads of
d features, S: the length of a token's own sequence, in the mean over tokens.
"""

from __future__ import annotations

import gc
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from envhub.protocol.training.shapes import ModelShape

from tests.bench.gpu_shapes import Mix, config_of, make_model, samples, shape_of
from workers.training.journal.batch import StepBatch
from workers.training.learner.directory.config import LearnerConfig, OptimiserConfig
from workers.training.learner.directory.reports import LearnerStep
from workers.training.learner.model import make_policy
from workers.training.learner.recompute import Pieces, make_pieces, recompute_layers
from workers.training.learner.step import Learner
from workers.training.learner.world import World
from workers.training.memory_plan import MemoryPlan
from workers.training.samples.sample import Sample

TIMED = 2
SHOWN = 25


@dataclass(frozen=True)
class Case:
    """One model, trained in one way, on one mix of rollouts."""

    model: str
    sizes: dict[str, int]
    mode: Literal["lora", "full"]
    mix: Mix

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.model} {self.mode} {self.mix.name}"


def matmul_peak(device: torch.device, size: int) -> float:
    """FLOP/s of a square bf16 product: the median of twenty."""
    a, b = (torch.randn(size, size, device=device).bfloat16() for _ in range(2))
    seconds = []
    for _ in range(25):
        began = clock(device)
        a @ b
        seconds.append(clock(device) - began)
    return 2 * size**3 / statistics.median(seconds[5:])


def clock(device: torch.device) -> float:
    """Seconds, when the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def flops_per_token(shape: ModelShape, mode: str, rollouts: Sequence[Sample]) -> float:
    """The module's formula."""
    lengths = [len(each) for each in rollouts]
    head = shape.vocabulary * shape.hidden
    body = shape.parameters - head * (1 if shape.tied else 2)
    trained = sum(each.trained for each in rollouts) / sum(lengths)
    own = sum(length**2 for length in lengths) / sum(lengths)
    attention = 6 * shape.layers * shape.heads * shape.head_dim * own
    return (6 if mode == "full" else 4) * (body + trained * head) + attention


def measure(case: Case, device: torch.device, peak: float, *, profile: bool) -> dict[str, Any]:
    """Steps of the learner on one case, after one to warm up; a case that does not fit says so."""
    config = LearnerConfig(
        mode=case.mode,
        dtype="bfloat16",
        optimiser=OptimiserConfig(learning_rate=1e-6),
        token_budget=case.mix.budget,
        widens=True,
        prefix_sharing=False,  # the formula counts every token
    )
    pieces = planned(case, config, device)
    plan, budget = pieces.plan, pieces.tokens
    assert plan is not None
    if not plan.fits:
        return {"case": case.name, "skipped": f"needs {plan.total / 1e9:.0f} GB"}
    policy = make_policy(make_model(case.sizes, device, torch.bfloat16), config)
    recompute_layers(policy, pieces.recompute)
    learner = Learner(policy, config, World())
    rollouts = samples(case.mix, vocabulary=case.sizes["vocab_size"])
    batch = StepBatch(step=1, samples=tuple(rollouts), denominator=float(sum(each.trained for each in rollouts)))
    learner.train(batch, budget=budget)
    steps = [step(learner, batch, budget) for _ in range(TIMED)]
    result = figures(case, plan, rollouts, statistics.median(seconds for seconds, _ in steps), peak)
    report = steps[-1][1]
    result |= {
        "token_budget": budget,
        "peak_memory": report.peak_memory,
        "micro_batches": report.micro_batches,
        "loss": report.loss,
    }
    result["waits"] = waits(learner, batch, budget) if device.type == "cuda" else None
    if profile:
        result["profile"] = profiled(learner, batch, budget)
    return result


def figures(case: Case, plan: MemoryPlan, rollouts: Sequence[Sample], seconds: float, peak: float) -> dict[str, Any]:
    """What is told of a case."""
    tokens = sum(len(each) for each in rollouts)
    flops = flops_per_token(shape_of(case.sizes), case.mode, rollouts)
    return {
        "case": case.name,
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_s": tokens / seconds,
        "flops_per_token": flops,
        "share_of_peak": tokens / seconds * flops / peak,
        "planned_memory": plan.total,
        "recomputed_layers": plan.recompute,
    }


def planned(case: Case, config: LearnerConfig, device: torch.device) -> Pieces:
    """The learner's own plan for what is free."""
    with tempfile.TemporaryDirectory(prefix="bench-gpu-") as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config_of(case.sizes).to_dict()))
        return make_pieces(Path(folder), config, device)


def step(learner: Learner, batch: StepBatch, budget: int) -> tuple[float, LearnerStep]:
    """Seconds of one, until the device has done it, and the learner's report."""
    began = clock(learner.policy.device)
    report = learner.train(batch, budget=budget)
    return clock(learner.policy.device) - began, report


def waits(learner: Learner, batch: StepBatch, budget: int) -> int:
    """How often the host waited for the GPU in a step: by the learner's design at its end alone."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            learner.train(batch, budget=budget)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing" in str(each.message) for each in caught)


def profiled(learner: Learner, batch: StepBatch, budget: int) -> list[tuple[str, float, int]]:
    """Name, milliseconds and calls of the operations that take most of a step's time."""
    cuda = learner.policy.device.type == "cuda"
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CUDA if cuda else kinds.CPU]) as profile:
        step(learner, batch, budget)
    field = "self_device_time_total" if cuda else "self_cpu_time_total"
    longest = sorted(profile.key_averages(), key=lambda event: -getattr(event, field))[:SHOWN]
    return [(event.key[:120], getattr(event, field) / 1e3, event.count) for event in longest]


def forget(device: torch.device) -> None:
    """Give memory back before the next case is planned."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
