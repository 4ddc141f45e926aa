"""The plan: what is missing, in order, as singles or as whole groups."""

from __future__ import annotations

from typing import Any

import pytest
from envhub.protocol.evals.evaluations import EvaluationConfig
from envhub.protocol.evals.shards import DoneExample
from envhub.protocol.runner import Described, SplitInfo

from workers.evals.plan import count_examples, units
from workers.rollouts.schedule import Unit
from workers.runs.errors import RunFailed

DONE = (
    DoneExample(example=0, example_hash="a" * 64, rollouts=(0, 2)),
    DoneExample(example=1, example_hash="b" * 64, rollouts=(0, 1, 2)),
)


def described(size: int | None) -> Described:
    return Described(env_class="E", splits={"eval": SplitInfo(size=size)})


def config(number: int, **given: Any) -> EvaluationConfig:
    return EvaluationConfig(environment="a/b", model="a/m", num_examples=number, **given)


def test_single_rollouts_fill_the_gaps() -> None:
    assert list(units(range(3), 3, DONE, as_groups=False)) == [
        Unit(0, 1, 1, "a" * 64),
        Unit(2, 0, 1),
        Unit(2, 1, 1),
        Unit(2, 2, 1),
    ]


def test_a_group_with_a_gap_runs_again_whole() -> None:
    assert list(units(range(3), 3, DONE, as_groups=True)) == [Unit(0, 0, 3, "a" * 64), Unit(2, 0, 3)]


@pytest.mark.parametrize(("asked", "size", "expected"), [(5, 3, 3), (-1, 3, 3), (5, None, 5), (0, 3, 0)])
def test_the_number_of_examples_is_bounded_by_the_data(asked: int, size: int | None, expected: int) -> None:
    assert count_examples(config(asked), described(size)) == expected


@pytest.mark.parametrize(
    ("splits", "rows", "size"),
    [
        ({"train": SplitInfo(size=5), "eval": SplitInfo(size=3)}, "eval", 3),
        ({"train": SplitInfo(size=5), "eval": SplitInfo(size=5, rows_of="train")}, "train", 5),
        ({"train": SplitInfo(size=5)}, "train", 5),
        ({}, "train", None),
    ],
)
def test_whose_rows_a_split_has(splits: dict[str, SplitInfo], rows: str, size: int | None) -> None:
    found = Described(env_class="E", splits=splits)
    assert (found.rows_of("eval"), found.size("eval")) == (rows, size)


def test_all_of_an_unknown_number_is_refused() -> None:
    with pytest.raises(RunFailed):
        count_examples(config(-1), described(None))


def test_an_evaluation_of_nothing_fails_instead_of_succeeding() -> None:
    with pytest.raises(RunFailed, match="no examples in its split 'eval' when it is loaded without arguments"):
        count_examples(config(3), described(0))


def test_arguments_are_blamed_for_an_empty_split_only_where_some_were_given() -> None:
    with pytest.raises(RunFailed, match="no examples in its split 'eval' with these arguments"):
        count_examples(config(3, env_args={"subset": "none"}), described(0))
