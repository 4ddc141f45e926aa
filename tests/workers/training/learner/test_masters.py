"""Gradients of bf16 weights move to their fp32 masters; when memory runs out in between, nothing of them stays."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
import torch
from torch import nn

from workers.training.learner.masters import Masters

pytestmark = pytest.mark.torch


def test_after_memory_ran_out_the_next_gradient_is_not_added_to_an_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    parameter = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    masters = Masters([("w", parameter)])

    def short(*_: Any, **__: Any) -> NoReturn:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as full:
        full.setattr(torch.Tensor, "to", short)
        with pytest.raises(torch.OutOfMemoryError):
            (2 * parameter).sum().backward()
    masters.clear_gradients()
    (2 * parameter).sum().backward()
    assert masters.named["w"].grad is not None
    assert masters.named["w"].grad.tolist() == [2, 2, 2]
