"""A micro-batch's numpy arrays as tensors on the learner's device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from workers.training.learner.attention import Packed
from workers.training.learner.head import Targets
from workers.training.packing.microbatch import MicroBatch


@dataclass(frozen=True)
class DeviceBatch:
    """ids, positions: [N]; index: [M], the hidden state that predicts each target."""

    ids: Tensor
    positions: Tensor
    packed: Packed
    index: Tensor
    targets: Targets


def to_device(batch: MicroBatch, *, denominator: float, device: torch.device, precise: torch.dtype) -> DeviceBatch:
    """Copy `batch`. precise: the dtype that losses are computed in."""

    def tensor(values: Any, dtype: torch.dtype) -> Tensor:
        host = torch.as_tensor(values).to(dtype)
        return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host

    targets = Targets(
        labels=tensor(batch.labels, torch.long),
        logmu=tensor(batch.logprobs, precise),
        advantages=tensor(batch.advantages, precise),
        inv_temperature=tensor(batch.inv_temperature, precise),
        scale=tensor(batch.weights, precise) / denominator,
        sequence=tensor(batch.sequence, torch.long),
    )
    return DeviceBatch(
        ids=tensor(batch.ids, torch.long),
        positions=tensor(batch.positions, torch.long),
        packed=Packed.of(batch, device),
        index=tensor(batch.index, torch.long),
        targets=targets,
    )
