"""Which example comes next: ratios, passes, seeds, what is set aside, and going on from a state."""

from __future__ import annotations

from collections import Counter

import pytest

from workers.training.admission.errors import NothingToLearn
from workers.training.coordinator.cursor import Cursor, Shelf

ONE = (Shelf("a", 1.0, 8, 10, held_out=2),)
TWO = (Shelf("a", 3.0, 8, 100), Shelf("b", 1.0, 8, 100))
NOTHING: dict[str, frozenset[int]] = {"a": frozenset(), "b": frozenset()}


def draw(cursor: Cursor, number: int, aside: dict[str, frozenset[int]] = NOTHING) -> list[tuple[str, int]]:
    drawn = [cursor.draw(aside) for _ in range(number)]
    return [(shelf.label, example) for shelf, example in drawn]


def test_a_pass_shows_every_example_once_and_never_one_that_is_held_out() -> None:
    examples = [example for _, example in draw(Cursor(ONE, 0), 16)]
    assert sorted(examples[:8]) == sorted(examples[8:]) == list(range(8))
    assert examples[:8] != examples[8:]


def test_environments_are_drawn_by_their_ratios() -> None:
    assert Counter(label for label, _ in draw(Cursor(TWO, 0), 40)) == {"a": 30, "b": 10}


def test_ratios_count_rollouts_not_groups() -> None:
    shelves = (Shelf("a", 1.0, 4, 100), Shelf("b", 1.0, 16, 100))
    assert Counter(label for label, _ in draw(Cursor(shelves, 0), 50)) == {"a": 40, "b": 10}


def test_the_seed_decides_the_order() -> None:
    assert draw(Cursor(ONE, 1), 8) == draw(Cursor(ONE, 1), 8) != draw(Cursor(ONE, 2), 8)


def test_what_is_set_aside_is_not_drawn() -> None:
    drawn = draw(Cursor(ONE, 0), 20, {"a": frozenset(range(6))})
    assert {example for _, example in drawn} == {6, 7}


def test_nothing_left_is_said() -> None:
    with pytest.raises(NothingToLearn, match="set aside"):
        draw(Cursor(ONE, 0), 1, {"a": frozenset(range(8))})


def test_a_state_goes_on_with_the_next_example() -> None:
    straight = draw(Cursor(TWO, 0), 30)
    first = Cursor(TWO, 0)
    begun = draw(first, 12)
    second = Cursor(TWO, 0)
    second.restore(first.state())
    assert begun + draw(second, 18) == straight


def test_an_environment_that_does_not_know_its_size_is_read_in_order() -> None:
    assert draw(Cursor((Shelf("a", 1.0, 8, None),), 0), 3) == [("a", 0), ("a", 1), ("a", 2)]
