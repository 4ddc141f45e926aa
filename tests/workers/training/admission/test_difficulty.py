from __future__ import annotations

import random

import pytest

from workers.training.admission.difficulty import DifficultyBuffer, DifficultyOptions


def test_examples_at_the_thresholds_are_set_aside_and_no_more_sampled() -> None:
    buffer = DifficultyBuffer(range(4), DifficultyOptions(easy_threshold=0.75, hard_threshold=0.25))
    for example, mean in enumerate([0.75, 0.5, 0.25, 0.74]):
        assert buffer.observe(example, mean)  # thresholds move examples, they do not refuse groups
    assert buffer.normal() == (1, 3)
    assert buffer.sizes() == {"easy": 1, "normal": 2, "hard": 1}


def test_an_example_set_aside_stays_there() -> None:
    buffer = DifficultyBuffer(range(1), DifficultyOptions(easy_threshold=0.75))
    buffer.observe(0, 1.0)
    buffer.observe(0, 0.0)
    assert buffer.sizes()["easy"] == 1


@pytest.mark.parametrize(("mean", "trains"), [(0.0, False), (1.0, False), (0.5, True), (2.0, True)])
def test_online_filtering_refuses_groups_at_exactly_zero_and_one(mean: float, trains: bool) -> None:
    buffer = DifficultyBuffer(range(1), DifficultyOptions(online_difficulty_filtering=True))
    assert buffer.observe(0, mean) is trains
    assert buffer.normal() == (0,)


def test_without_thresholds_nothing_is_set_aside() -> None:
    buffer = DifficultyBuffer(range(2), DifficultyOptions())
    assert buffer.observe(0, 0.0)
    assert buffer.normal() == (0, 1)


def test_a_checkpoint_restores_the_pools() -> None:
    options = DifficultyOptions(easy_threshold=1.0, hard_threshold=0.0, easy_fraction=0.5)
    buffer = DifficultyBuffer(range(8), options)
    for example in range(4):
        buffer.observe(example, 1.0)
    again = DifficultyBuffer(range(8), options)
    again.restore(buffer.state(), None)
    assert again.state() == buffer.state()


def test_a_fraction_returns_to_normal_on_a_resume_that_asks_for_it() -> None:
    options = DifficultyOptions(easy_threshold=1.0, hard_threshold=0.0, easy_fraction=0.5)
    buffer = DifficultyBuffer(range(8), options)
    buffer.restore({"easy": [0, 1, 2, 3], "hard": [4, 5, 99]}, random.Random(0))
    assert buffer.sizes() == {"easy": 2, "normal": 4, "hard": 2}


def test_thresholds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ValueError, match="easy_threshold"):
        DifficultyOptions(easy_threshold=0.2, hard_threshold=0.8)
