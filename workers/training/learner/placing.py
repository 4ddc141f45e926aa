"""From the host's memory to the learner's device, without waiting for what that is doing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def on_device(values: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """An array or numbers as a tensor. A GPU fetches it from pinned memory: from any other, the host waits for it."""
    host = torch.as_tensor(values, dtype=dtype)
    return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host
