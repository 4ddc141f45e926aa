"""Each model family's patch of Liger gets the switches that it has, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from workers.training.learner.kernels.modules import known_to

pytestmark = pytest.mark.torch


def full(
    rope: bool = True,
    cross_entropy: bool = False,
    fused_linear_cross_entropy: bool = True,
    rms_norm: bool = True,
    swiglu: bool = True,
    model: Any = None,
) -> None:
    """As of Llama and Qwen."""


def small(rope: bool = True, rms_norm: bool = True, geglu: bool = True, model: Any = None) -> None:
    """As of families without a fused head, or with another activation."""


def test_the_head_stays_ours_and_the_rest_is_fused() -> None:
    assert known_to(full) == {"rope": True, "rms_norm": True, "swiglu": True, "fused_linear_cross_entropy": False}


def test_a_family_is_not_asked_for_what_it_lacks() -> None:
    assert known_to(small) == {"rope": True, "rms_norm": True, "geglu": True}
    small(**known_to(small))
