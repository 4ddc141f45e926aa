"""Segment attention against one dense softmax with an explicit mask."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor

from tests.workers.training.learner.making import samples
from workers.training.learner.kernels import attention, flash
from workers.training.learner.kernels.attention import Packed, Run, attend, by_segment
from workers.training.packing.microbatch import MicroBatch
from workers.training.packing.plan import PackingOptions, pack_step

pytestmark = pytest.mark.torch
CPU = torch.device("cpu")


def dense(
    q: Tensor, k: Tensor, v: Tensor, packed: Packed, depths: Tensor, *, scale: float, window: int | None
) -> Tensor:
    """All tokens by all tokens: a token sees its segment's and its ancestors' tokens that are not deeper."""
    owner = torch.repeat_interleave(torch.arange(len(packed.paths)), torch.diff(torch.tensor(packed.bounds)))
    related = torch.tensor(
        [[b == a or b in packed.paths[a] for b in range(len(packed.paths))] for a in range(len(packed.paths))]
    )
    distance = depths[:, None] - depths[None, :]
    seen = related[owner][:, owner] & (distance >= 0) & (distance < (window or 10**9))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = (q @ k.transpose(-1, -2) * scale).masked_fill(~seen, float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2)


@pytest.mark.parametrize("window", [None, 5, 24])
@pytest.mark.parametrize("share", [False, True])
def test_segments_see_their_path_and_nothing_else(share: bool, window: int | None) -> None:
    ((batch,),) = pack_step(samples(), PackingOptions(budget=1000, share_prefixes=share))
    assert batch.shared == share
    packed = Packed.of(batch, CPU)
    q, k, v = (torch.randn(1, heads, batch.tokens, 8, dtype=torch.float64, requires_grad=True) for heads in (4, 2, 2))
    ours = by_segment(q, k, v, packed, scale=0.3, window=window)
    plain = dense(q, k, v, packed, torch.as_tensor(batch.positions), scale=0.3, window=window)
    torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-13)
    push = torch.randn_like(plain)
    ours_gradients = torch.autograd.grad((ours * push).sum(), (q, k, v))
    torch.testing.assert_close(
        ours_gradients, torch.autograd.grad((plain * push).sum(), (q, k, v)), rtol=1e-11, atol=1e-12
    )


@pytest.mark.parametrize("window", [None, 3])
def test_equal_siblings_are_one_batch(window: int | None) -> None:
    bounds, paths = (0, 3, 5, 7, 9, 11, 12, 14, 16), ((), (0,), (0,), (0,), (0,), (0, 4), (), ())
    batch = SimpleNamespace(bounds=bounds, paths=paths, key_bounds=(0,), key_index=None, max_query=3, max_key=6)
    packed = Packed.of(cast("MicroBatch", batch), CPU)
    assert packed.runs == (Run((), 1, 3), Run((0,), 3, 2), Run((0,), 1, 2), Run((0, 2), 1, 1), Run((), 2, 2))
    depths = torch.tensor([0, 1, 2, 3, 4, 3, 4, 3, 4, 3, 4, 5, 0, 1, 0, 1])
    q, k, v = (torch.randn(1, heads, 16, 8, dtype=torch.float64) for heads in (4, 2, 2))
    plain = dense(q, k, v, packed, depths, scale=0.3, window=window)
    torch.testing.assert_close(by_segment(q, k, v, packed, scale=0.3, window=window), plain, rtol=1e-12, atol=1e-13)


@pytest.fixture
def may_repeat() -> Iterator[None]:
    """Restores the process's setting."""
    before = torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(before)


@pytest.mark.parametrize("package", ["flash2", "flash4"])
@pytest.mark.parametrize("repeats", [True, False])
@pytest.mark.usefixtures("may_repeat")
def test_flash_attention_is_told_whether_it_must_repeat(
    package: str, repeats: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[bool] = []

    def kernel(q: Tensor, *_: object, deterministic: bool, **__: object) -> tuple[Tensor, None]:
        told.append(deterministic)
        return (q, None) if package == "flash4" else q  # type: ignore[return-value]

    for name in ("flash2", "flash4"):
        monkeypatch.setattr(flash, name, lambda name=name: kernel if name == package else None)
    torch.use_deterministic_algorithms(repeats)
    ((batch,),) = pack_step(samples(), PackingOptions(budget=1000))
    q, k, v = (torch.zeros(1, 2, batch.tokens, 8) for _ in range(3))
    assert attention.varlen(q, k, v, Packed.of(batch, CPU), 1.0, None).shape == (1, batch.tokens, 2, 8)
    assert told == [repeats]


@pytest.mark.parametrize(
    ("source", "found", "warned"),
    [
        (None, False, False),
        ("", False, False),  # FlashAttention 4 alone
        ("def flash_attn_varlen_func(): ...", True, False),
        ("import not_there", False, True),
        ("raise OSError('no libcudart')", False, True),
    ],
)
def test_an_installed_kernel_that_cannot_be_used_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    source: str | None, found: bool, warned: bool,
) -> None:  # fmt: skip
    monkeypatch.delitem(sys.modules, "flash_attn", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    if source is not None:
        (tmp_path / "flash_attn.py").write_text(source)
    assert (flash.installed("flash_attn") is not None) == found
    assert bool(caplog.records) == warned
    sys.modules.pop("flash_attn", None)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the varlen kernels need a GPU")
@pytest.mark.parametrize("share", [False, True])
def test_the_varlen_kernel_agrees_with_segments(share: bool) -> None:
    ((batch,),) = pack_step(samples(), PackingOptions(budget=1000, share_prefixes=share))
    device = torch.device("cuda")
    packed = Packed.of(batch, device)
    q, k, v = (
        torch.randn(1, heads, batch.tokens, 64, dtype=torch.bfloat16, device=device, requires_grad=True)
        for heads in (4, 2, 2)
    )
    segments = by_segment(q, k, v, packed, scale=0.125, window=None)
    kernel = attend(q, k, v, packed, scale=0.125, window=None)
    push = torch.randn_like(kernel)
    expected = torch.autograd.grad(segments, (q, k, v), push)
    found = torch.autograd.grad(kernel, (q, k, v), push)
    torch.testing.assert_close((kernel, *found), (segments, *expected), rtol=2e-2, atol=5e-2)
