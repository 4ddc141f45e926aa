"""Products of fp32 matrices on a CPU by oneDNN: MKL, which torch asks otherwise, is half as fast on AMD's processors.

oneDNN compiles a kernel for each shape it meets and keeps it; where that would not pay, the product is torch's own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

AVAILABLE = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
ONCE = 1 << 28  # flops that pay for a kernel of their own (a millisecond or two)
AGAIN = 1 << 22  # flops above which oneDNN is faster, when its kernel is there
FEW_ROWS = 128  # of a decoding batch: such shapes come again and again
ROUND_ROWS = 64  # what the learner rounds its micro-batches to, so that theirs do too


def product(x: Tensor, weight: Tensor) -> Tensor:
    """x [..., K] times weight [N, K] transposed: [..., N], as torch.nn.functional.linear. Not tracked by autograd."""
    return _onednn(x, weight) if _pays(x, weight) else linear(x, weight)


def _pays(x: Tensor, weight: Tensor) -> bool:
    if not AVAILABLE or weight.device.type != "cpu" or weight.dtype != torch.float32:
        return False
    rows = x.numel() // weight.shape[1]
    flops = 2 * rows * weight.numel()
    return flops >= ONCE or (flops >= AGAIN and (rows <= FEW_ROWS or rows % ROUND_ROWS == 0))


def _onednn(x: Tensor, weight: Tensor) -> Tensor:
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
    return result


class _Linear(torch.autograd.Function):
    """x W^T, and its gradients g W and g^T x, by oneDNN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight)
        return _onednn(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        dx = _onednn(gradient, weight.t()) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return dx, None
        return dx, _onednn(gradient.flatten(0, -2).t(), x.flatten(0, -2).t())


def _tracked(x: Tensor, weight: Tensor) -> Tensor:
    result: Tensor = _Linear.apply(x, weight)  # type: ignore[no-untyped-call]
    return result


class CpuLinear(nn.Linear):
    """A linear layer that multiplies by oneDNN where that pays."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        if not _pays(x, self.weight):
            return linear(x, self.weight, self.bias)
        result = _tracked(x, self.weight) if torch.is_grad_enabled() else _onednn(x, self.weight)
        return result if self.bias is None else result + self.bias


def use_fast_products(model: nn.Module) -> None:
    """Make the linear layers of `model` CpuLinear; what is derived from nn.Linear stays what it is."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = CpuLinear
