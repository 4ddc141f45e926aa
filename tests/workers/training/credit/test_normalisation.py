from __future__ import annotations

import pytest

from tests.factories.training import build_sample
from workers.training.credit.normalisation import normalise

SAMPLES = (
    build_sample([1, 2, 3], [1, 2], index=0),
    build_sample([1, 2, 3, 4], [3], index=0, branch=1),
    build_sample([1, 2], [1], index=1),
    build_sample([1, 2], [], index=2),
)


def test_by_token_every_token_weighs_the_same() -> None:
    samples, denominator = normalise(SAMPLES, "token")
    assert denominator == 4
    assert [sample.weight for sample in samples] == [1, 1, 1, 1]


def test_by_sequence_every_rollout_weighs_the_same_over_all_its_branches() -> None:
    samples, denominator = normalise(SAMPLES, "sequence")
    assert denominator == 2
    assert [sample.weight for sample in samples[:3]] == [1 / 3, 1 / 3, 1]
    assert sum(sample.weight * sample.trained for sample in samples) == pytest.approx(denominator)


def test_by_constant_length_does_not_matter() -> None:
    samples, denominator = normalise(SAMPLES, "constant", constant=100)
    assert denominator == 200
    assert {sample.weight for sample in samples} == {1.0}
    with pytest.raises(ValueError, match="longest completion"):
        normalise(SAMPLES, "constant")


def test_nothing_to_train_has_denominator_zero() -> None:
    assert normalise(SAMPLES[3:], "token")[1] == 0
