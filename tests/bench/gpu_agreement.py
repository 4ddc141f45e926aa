"""Do a machine's kernels agree? Attention and Liger's modules in bf16 against the same in fp32, forward and gradients.

An error is the norm of the difference over the norm of the fp32 result. Plain modules in bf16 are off, too, by one to
four hundredths in gradients: of each array a kernel may be off by TOLERANCE or by twice as much as they.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from inspect import signature
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

from tests.bench.gpu_shapes import Mix, make_model, samples, sizes
from workers.training.learner.batches import to_device
from workers.training.learner.directory.config import LearnerConfig, LossConfig
from workers.training.learner.gradients import add_gradients
from workers.training.learner.kernels import flash, softmax_rows
from workers.training.learner.kernels import modules as kernels
from workers.training.learner.kernels.attention import Packed, by_segment, varlen
from workers.training.learner.masters import Masters
from workers.training.learner.model import make_policy
from workers.training.packing.microbatch import MicroBatch
from workers.training.packing.plan import PackingOptions, pack_step

TOLERANCE = 2e-2
MIX = Mix("agreement", shortest=20, longest=400, prompt=40, tokens=4000, budget=4000)
WORDS = 1000
MODEL = sizes(512, 1024, 2, 8) | {"num_key_value_heads": 4, "head_dim": 64, "vocab_size": WORDS}
ROWS, VOCABULARY = 64, 151_936
FLASH = {"FlashAttention 4": flash.by_flash4, "FlashAttention 2": flash.by_flash2, "torch varlen": flash.by_torch}
SOFTMAX = "softmax kernels"
Errors = dict[str, list[float]]  # of each array, by kernel
Kernel = Callable[[Tensor, Tensor, Tensor, Packed], Tensor]


def agreement(device: torch.device) -> dict[str, Any]:
    """Errors by kernel, and what was not there to be tried."""
    (batch,) = pack_step(samples(MIX, vocabulary=WORDS), PackingOptions(budget=10**6, share_prefixes=True))[0]
    found = {
        "segments": attention_errors(batch, device),
        "torch": softmax_errors(device),
        "plain": module_errors(batch, device),
    }
    good = all(within(own, plain) for plain, own in found.items())
    errors = {name: error for own in found.values() for name, error in own.items()}
    missing = sorted({*FLASH, "Liger", SOFTMAX} - errors.keys())
    return {"worst": {name: max(own) for name, own in errors.items()}, "not_here": missing, "good": good}


def within(errors: Errors, plain: str) -> bool:
    """Whether every kernel is about as near as the plain one."""
    limits = [max(TOLERANCE, 2 * error) for error in errors[plain]]
    return all(error <= limit for own in errors.values() for error, limit in zip(own, limits, strict=True))


def attention_errors(batch: MicroBatch, device: torch.device) -> Errors:
    """Of output and gradients; shared prefixes, grouped heads."""
    packed = Packed.of(batch, device)
    torch.manual_seed(0)
    wide = [torch.randn(1, heads, batch.tokens, 128, device=device) for heads in (8, 4, 4)]
    push = torch.randn(1, batch.tokens, 8, 128, device=device)
    exact = attended(segments, wide, push, packed)
    kernels_here: dict[str, Kernel] = {"segments": segments}
    if device.type == "cuda":
        kernels_here |= {name: with_kernel(made) for name, made in FLASH.items() if is_here(name)}
    return {
        name: apart(partial(attended, function, [each.bfloat16() for each in wide], push.bfloat16(), packed), exact)
        for name, function in kernels_here.items()
    }


def is_here(name: str) -> bool:
    """torch's always is."""
    packages = {"FlashAttention 4": flash.flash4, "FlashAttention 2": flash.flash2}
    return name not in packages or packages[name]() is not None


def with_kernel(made: flash.Kernel) -> Kernel:
    """One launch over all segments, of one kind."""

    def launched(q: Tensor, k: Tensor, v: Tensor, packed: Packed) -> Tensor:
        with mock.patch.object(flash, "kernel", return_value=made):
            return varlen(q, k, v, packed, q.shape[-1] ** -0.5, None)

    return launched


def softmax_errors(device: torch.device) -> Errors:
    """Of log-probability, entropy and gradient of rows of logits."""
    torch.manual_seed(0)
    logits = 4 * torch.randn(ROWS, VOCABULARY, device=device)
    labels = torch.randint(VOCABULARY, (ROWS,), device=device)
    scale, slope = (0.5 + torch.rand(ROWS, device=device) for _ in range(2))
    ways = {"torch": softmax_rows.TorchRows}
    if device.type == "cuda" and find_spec("triton") is not None:
        ways[SOFTMAX] = softmax_rows.KernelRows

    def rows(way: Any, dtype: torch.dtype) -> list[Tensor]:
        made = way(logits.to(dtype).clone(), labels, scale.to(dtype))
        return [made.logp, made.entropy, made.gradient(slope.to(dtype), dtype)]

    exact = rows(softmax_rows.TorchRows, torch.float64)
    return {name: apart(partial(rows, way, torch.float32), exact) for name, way in ways.items()}


def segments(q: Tensor, k: Tensor, v: Tensor, packed: Packed) -> Tensor:
    """One scaled_dot_product_attention a segment."""
    return by_segment(q, k, v, packed, scale=q.shape[-1] ** -0.5, window=None)


def attended(function: Kernel, inputs: Sequence[Tensor], push: Tensor, packed: Packed) -> list[Tensor]:
    """Output and gradients."""
    leaves = [each.detach().requires_grad_() for each in inputs]
    q, k, v = leaves
    output = function(q, k, v, packed)
    return [output.detach(), *torch.autograd.grad(output, leaves, push)]


def module_errors(batch: MicroBatch, device: torch.device) -> Errors:
    """Of every weight's gradient, plain and with Liger's modules.

    Liger changes transformers' modules for good: plain ones have to come first.
    """
    with mock.patch.object(kernels, "liger_patch", return_value=None):
        exact = trained(batch, device, torch.float32)
        errors = {"plain": apart(partial(trained, batch, device, torch.bfloat16), exact)}
    if device.type == "cuda" and kernels.liger_patch("qwen3") is not None:
        errors["Liger"] = apart(partial(trained, batch, device, torch.bfloat16), exact)
    return errors


def trained(batch: MicroBatch, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    """The learner's gradients of every weight."""
    config = LearnerConfig(mode="full", loss=LossConfig(name="reinforce"))  # no bound that a rounding might cross
    torch.manual_seed(0)
    policy = make_policy(make_model(MODEL, torch.device("cpu"), torch.bfloat16).to(device, dtype), config)
    masters = Masters(policy.trained())
    placed = to_device(batch, denominator=float(batch.targets), device=device, precise=torch.float32)
    add_gradients(policy, masters, placed, config.loss, chunk=512)
    return [master.grad for master in masters.named.values() if master.grad is not None]


def apart(make: Callable[[], Sequence[Tensor]], exact: Sequence[Tensor]) -> list[float]:
    """Error of each array; infinite for a kernel that fails, so that the others are still seen."""
    try:
        found = make()
        return [float((a.double() - b.double()).norm() / b.double().norm()) for a, b in zip(found, exact, strict=True)]
    except Exception:  # noqa: BLE001 - kernels that are compiled at their first use have errors of their own
        traceback.print_exc()
        return [math.inf] * len(exact)


@contextmanager
def older_torch() -> Iterator[None]:
    """torch 2.11 shares heads without being told to, and cannot be told."""
    plain = varlen_attn

    def untold(*given: Any, enable_gqa: bool, **named: Any) -> Any:
        return plain(*given, **named)

    known = "enable_gqa" in signature(plain).parameters
    with mock.patch.object(flash, "varlen_attn", plain if known else untold):
        yield
