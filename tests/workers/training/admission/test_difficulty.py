from __future__ import annotations

import pytest

from workers.training.admission.difficulty import DifficultyBuffer, DifficultyOptions


def test_examples_at_the_thresholds_are_set_aside() -> None:
    buffer = DifficultyBuffer(DifficultyOptions(easy_threshold=0.75, hard_threshold=0.25))
    for example, mean in enumerate([0.75, 0.5, 0.25, 0.74]):
        assert buffer.observe(example, mean)  # thresholds move examples, they do not refuse groups
    assert buffer.state() == {"easy": [0], "hard": [2]}


def test_an_example_set_aside_stays_there() -> None:
    buffer = DifficultyBuffer(DifficultyOptions(easy_threshold=0.75, hard_threshold=0.25))
    buffer.observe(0, 1.0)
    buffer.observe(0, 0.0)
    assert buffer.state() == {"easy": [0], "hard": []}


@pytest.mark.parametrize(("mean", "trains"), [(0.0, False), (1.0, False), (0.5, True), (2.0, True)])
def test_online_filtering_refuses_groups_at_exactly_zero_and_one(mean: float, trains: bool) -> None:
    buffer = DifficultyBuffer(DifficultyOptions(online_difficulty_filtering=True))
    assert buffer.observe(0, mean) is trains
    assert buffer.state() == {"easy": [], "hard": []}


def test_the_order_in_which_examples_were_set_aside_leaves_no_trace() -> None:
    options = DifficultyOptions(easy_threshold=1.0, hard_threshold=0.0)
    one, other = DifficultyBuffer(options), DifficultyBuffer(options)
    for example in range(4):
        one.observe(example, example % 2)
        other.observe(3 - example, (3 - example) % 2)
    assert one.state() == other.state() == {"easy": [1, 3], "hard": [0, 2]}


def test_a_state_is_restored() -> None:
    options = DifficultyOptions(easy_threshold=1.0, hard_threshold=0.0)
    buffer = DifficultyBuffer(options)
    buffer.restore({"easy": [0, 1], "hard": [4]})
    buffer.observe(2, 1.0)
    assert buffer.state() == {"easy": [0, 1, 2], "hard": [4]}


def test_thresholds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ValueError, match="easy_threshold"):
        DifficultyOptions(easy_threshold=0.2, hard_threshold=0.8)
