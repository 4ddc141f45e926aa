from __future__ import annotations

import pytest

from tests.factories.training import build_sample
from workers.training.samples.arrays import floats, ids
from workers.training.samples.rollout import Turn


def test_the_first_token_cannot_be_trained() -> None:
    with pytest.raises(ValueError, match="nothing predicts its first token"):
        build_sample([1, 2], [0])


def test_arrays_must_be_equally_long() -> None:
    with pytest.raises(ValueError, match="unequal"):
        build_sample([1, 2], [1], logprobs=floats([0.0]))


def test_a_turn_needs_a_logprob_for_each_token() -> None:
    with pytest.raises(ValueError, match="2 tokens, 1 logprobs"):
        Turn(ids([1]), ids([2, 3]), floats([-1.0]), ids([0, 0]))
