"""Our norm on a CPU is a model's own, with its gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from workers.training.learner.kernels.cpu_norm import CpuNorm, Norm, use_cpu_norms

pytestmark = pytest.mark.torch


class OddRMSNorm(nn.Module):
    """Looks like the others and computes something else."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.ones(size)), 1e-6

    def forward(self, x: Tensor) -> Tensor:
        return (1 + self.weight) * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.variance_epsilon)


@pytest.mark.parametrize("family", [Qwen3RMSNorm, LlamaRMSNorm])
@pytest.mark.parametrize("shape", [(1, 37, 48), (1, 5, 4, 48)])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3])
def test_values_and_gradients_are_those_of_the_model(family: Any, shape: tuple[int, ...], scale: float) -> None:
    torch.manual_seed(0)
    plain, ours = family(48), family(48)
    for norm in (plain, ours):
        norm.weight.data = torch.linspace(-1, 2, 48)
    use_cpu_norms(ours)
    assert type(ours) is CpuNorm
    start, slope = scale * torch.randn(shape), torch.randn(shape)
    inputs = []
    for norm in (plain, ours):
        x = start.clone().requires_grad_()
        y = norm(x)
        y.backward(slope)
        inputs.append((y.detach(), x.grad, norm.weight.grad))
    for mine, theirs in zip(inputs[1], inputs[0], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5 * float(theirs.abs().max()))


def test_the_derivative_is_that_of_the_function() -> None:
    """Against differences, in float64."""
    x = torch.linspace(-2, 1, 24, dtype=torch.float64).reshape(4, 6).sin().requires_grad_()
    weight = torch.linspace(-1, 2, 6, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, weight: Norm.apply(x, weight, 1e-3), (x, weight))


def test_a_frozen_norm_has_no_gradient() -> None:
    norm = Qwen3RMSNorm(8).requires_grad_(False)
    use_cpu_norms(norm)
    x = torch.ones(2, 8, requires_grad=True)
    norm(x).sum().backward()
    assert x.grad is not None
    assert norm.weight.grad is None


@pytest.mark.parametrize("norm", [OddRMSNorm(8), GemmaRMSNorm(8), Qwen3RMSNorm(8).double()])
def test_another_formula_and_another_precision_stay(norm: nn.Module) -> None:
    kind = type(norm)
    use_cpu_norms(norm)
    assert type(norm) is kind
