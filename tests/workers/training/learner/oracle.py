"""What a step should be, as a textbook would say it: one sequence at a time, dense attention, autograd, float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.workers.training.learner.test_losses import textbook
from workers.training.learner.directory.config import LossConfig
from workers.training.samples.sample import Sample


def exact(model: Any) -> Any:
    """The model in float64 throughout: transformers' RMSNorm goes through float32, which alone costs 5e-8."""
    model = model.double()
    for path, module in list(model.named_modules()):
        if type(module).__name__.endswith("RMSNorm"):
            norm = nn.RMSNorm(module.weight.shape, eps=module.variance_epsilon, dtype=torch.float64)
            norm.weight = module.weight
            model.set_submodule(path, norm)
    return model


def oracle_step(
    model: Any, samples: Sequence[Sample], denominator: float, config: LossConfig
) -> tuple[float, dict[str, Tensor]]:
    """Loss and gradients of all trained parameters."""
    model.set_attn_implementation("sdpa")  # "eager" has its softmax in float32
    model.zero_grad(set_to_none=True)
    total = 0.0
    for sample in samples:
        if sample.trained:
            weight = float(np.float32(sample.weight))  # as micro-batches hold it
            loss = sequence_loss(model, sample, config) * weight / denominator
            loss.backward()
            total += loss.item()
    return total, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def sequence_loss(model: Any, sample: Sample, config: LossConfig) -> Tensor:
    """Sum of the sample's token losses."""
    dtype = next(model.parameters()).dtype
    ids = torch.as_tensor(sample.ids).long()
    logits = model(input_ids=ids[None]).logits[0, :-1] * sample.inv_temperature
    logp = torch.log_softmax(logits, -1).gather(1, ids[1:, None])[:, 0]
    train = torch.as_tensor(sample.train)
    logmu, advantage = (torch.as_tensor(array).to(dtype)[train] for array in (sample.logprobs, sample.advantages))
    chosen = logp[train[1:]]
    return textbook(config.name, chosen, logmu, advantage, torch.zeros(len(chosen), dtype=torch.long), config).sum()
