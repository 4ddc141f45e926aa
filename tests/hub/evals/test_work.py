"""What no run has in hand, compared with sets of examples."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from hub.evals.work import Range, Work, merged, within, without

ENDS = st.integers(0, 40)
RANGES = st.lists(st.tuples(ENDS, ENDS), max_size=8)


def examples(ranges: list[Range]) -> set[int]:
    return {example for first, stop in ranges for example in range(first, stop)}


@given(RANGES)
def test_merged_ranges_have_the_same_examples_once(ranges: list[Range]) -> None:
    found = merged(ranges)
    assert examples(found) == examples(ranges)
    assert sum(stop - first for first, stop in found) == len(examples(ranges))
    assert all(first < stop for first, stop in found)
    assert all(one[1] < other[0] for one, other in itertools.pairwise(found))


@given(RANGES, RANGES)
def test_without_and_within_part_what_there_is(ranges: list[Range], others: list[Range]) -> None:
    assert examples(without(ranges, others)) == examples(ranges) - examples(others)
    assert examples(within(ranges, others)) == examples(ranges) & examples(others)


@given(st.integers(0, 40), st.lists(st.tuples(st.booleans(), st.integers(1, 9)), max_size=20))
def test_what_is_taken_is_nobody_elses_until_it_comes_back(number: int, steps: list[tuple[bool, int]]) -> None:
    work, taken = Work(examples=number), list[Range]()
    for takes, many in steps:
        if takes:
            piece = work.take(many)
            assert (piece is None) == (len(examples(taken)) == number)
            if piece is not None:
                assert 0 < piece[1] - piece[0] <= many
                assert not examples([piece]) & examples(taken)
                taken.append(piece)
        elif taken:
            work.give_back([taken.pop(many % len(taken))])
        assert work.left == number - len(examples(taken))


def test_a_data_set_that_was_smaller_for_a_while_loses_nothing() -> None:
    work = Work(examples=10)
    taken = [work.take(4), work.take(4)]
    work.give_back([(0, 4)])
    work.examples = 2
    assert (taken, work.left, work.take(9), work.take(9)) == ([(0, 4), (4, 8)], 2, (0, 2), None)
    work.examples = 10
    assert (work.left, work.take(9), work.take(9), work.take(9)) == (4, (2, 4), (8, 10), None)
