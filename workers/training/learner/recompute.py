"""Applies the memory plan: which layers run again in the backward pass instead of keeping their activations."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import torch
from envhub.protocol.training_shapes import shape_of_config

from workers.training.learner.config import LearnerConfig
from workers.training.learner.head import default_chunk
from workers.training.learner.model import Policy, compute_dtype
from workers.training.memory_plan import MemoryPlan, Training, plan_memory

logger = logging.getLogger(__name__)


def free_bytes(device: torch.device) -> int:
    """What this process may still take of the device's memory."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024


def make_plan(base: Path, config: LearnerConfig, device: torch.device) -> MemoryPlan | None:
    """The plan for the model in `base`, before it is loaded; None when its shape is not known."""
    shape = shape_of_config(json.loads((base / "config.json").read_text()))
    if shape is None:
        return None
    training = Training(
        rank=config.lora.rank if config.mode == "lora" else 0,
        targets=config.lora.target_modules,
        width=compute_dtype(config, device).itemsize,
        token_budget=config.token_budget,
        head_chunk=config.head_chunk or default_chunk(shape.vocabulary, device),
    )
    plan = plan_memory(shape, training, available=config.memory_bytes or free_bytes(device))
    logger.info("memory plan: %.2f GB, recomputing %d of %d layers", plan.total / 1e9, plan.recompute, shape.layers)
    if not plan.fits:
        logger.warning("the plan does not fit into memory; going on, since it is an estimate")
    return plan


def layers_to_recompute(base: Path, config: LearnerConfig, device: torch.device) -> int | None:
    """As configured, else as planned; None: all of them."""
    if config.recompute is not None:
        return None if config.recompute else 0
    plan = make_plan(base, config, device)
    return plan.recompute if plan else 0


def recompute_layers(policy: Policy, count: int | None) -> None:
    """Let the first `count` layers keep only their input; None: all of them. No layer draws random numbers."""
    if count == 0:
        return
    policy.model.gradient_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False})
    for number, layer in enumerate(policy.body.layers):
        layer.gradient_checkpointing = count is None or number < count
