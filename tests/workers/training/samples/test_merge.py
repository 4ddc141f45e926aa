from __future__ import annotations

import pytest

from tests.factories.training import build_rollout, build_turn
from workers.training.samples.merge import merge_turns


def test_one_turn_trains_its_completion_and_nothing_else() -> None:
    merge = merge_turns(build_rollout(build_turn([1, 2], [3, 4], version=5), temperature=0.5))
    (sample,) = merge.samples
    assert sample.ids.tolist() == [1, 2, 3, 4]
    assert sample.train.tolist() == [False, False, True, True]
    assert sample.versions.tolist() == [-1, -1, 5, 5]
    assert sample.logprobs.tolist() == pytest.approx([0, 0, -0.003, -0.004])
    assert sample.inv_temperature == 2.0
    assert (merge.breaks, merge.forks) == (0, 0)


def test_a_turn_that_repeats_the_tokens_before_it_extends_the_sample() -> None:
    merge = merge_turns(build_rollout(build_turn([1], [2], version=0), build_turn([1, 2, 9], [3], version=1)))
    (sample,) = merge.samples
    assert sample.ids.tolist() == [1, 2, 9, 3]
    assert sample.train.tolist() == [False, True, False, True]  # 9 is the environment's
    assert sample.turns.tolist() == [-1, 0, -1, 1]
    assert sample.versions.tolist() == [-1, 0, -1, 1]


def test_other_tokens_for_what_was_sampled_break_the_prefix() -> None:
    merge = merge_turns(build_rollout(build_turn([1], [2, 3]), build_turn([1, 7, 9], [4])))
    assert [sample.ids.tolist() for sample in merge.samples] == [[1, 2, 3], [1, 7, 9, 4]]
    assert [sample.train.tolist() for sample in merge.samples] == [[False, True, True], [False, False, False, True]]
    assert (merge.breaks, merge.forks) == (1, 0)


def test_another_conversation_is_a_fork_and_no_break() -> None:
    merge = merge_turns(build_rollout(build_turn([1, 2], [3]), build_turn([1, 5], [6]), build_turn([1, 2, 3, 8], [4])))
    assert [sample.ids.tolist() for sample in merge.samples] == [[1, 2, 3, 8, 4], [1, 5, 6]]
    assert (merge.breaks, merge.forks) == (0, 1)


def test_two_answers_to_the_same_prompt_are_a_fork() -> None:
    merge = merge_turns(build_rollout(build_turn([1, 2], [3]), build_turn([1, 2], [4])))
    assert len(merge.samples) == 2
    assert (merge.breaks, merge.forks) == (0, 1)


def test_tokens_sampled_before_a_branch_train_in_the_first_sample_only() -> None:
    first, second, third = build_turn([1], [2]), build_turn([1, 2, 9], [3]), build_turn([1, 2, 8], [4])
    merge = merge_turns(build_rollout(first, second, third))
    assert [sample.train.tolist() for sample in merge.samples] == [
        [False, True, False, True],
        [False, False, False, True],
    ]


def test_the_longest_branch_is_extended() -> None:
    turns = build_turn([1], [2]), build_turn([1], [2, 3]), build_turn([1, 2, 3, 9], [4])
    merge = merge_turns(build_rollout(*turns))
    assert [sample.ids.tolist() for sample in merge.samples] == [[1, 2], [1, 2, 3, 9, 4]]


def test_a_turn_that_sampled_nothing_leaves_no_trace() -> None:
    merge = merge_turns(build_rollout(build_turn([1], [2]), build_turn([1, 2, 9], []), build_turn([1, 2, 9], [3])))
    (sample,) = merge.samples
    assert sample.turns.tolist() == [-1, 0, -1, 2]
