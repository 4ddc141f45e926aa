from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from tests.factories.training import build_group, build_rollout, build_turn
from workers.training.credit.group import CreditOptions, credit_group
from workers.training.samples.build import GroupSamples, SamplePolicy, build_samples
from workers.training.samples.rollout import Rollout


def built(group: tuple[Rollout, ...], policy: SamplePolicy) -> GroupSamples:
    return build_samples(group, credit_group(group, CreditOptions()), policy)


def test_each_turns_advantage_lies_on_its_tokens_only() -> None:
    rollout = build_rollout(build_turn([1], [2, 3]), build_turn([1, 2, 3, 9], [4]))
    result = build_samples([rollout], [np.array([0.5, -1.0])], SamplePolicy())
    assert result.samples[0][0].advantages.tolist() == [0, 0.5, 0.5, 0, -1.0]


def test_a_failed_rollout_has_no_samples_and_is_counted() -> None:
    result = built(build_group(1.0, None, 0.0), SamplePolicy())
    assert [len(samples) for samples in result.samples] == [1, 0, 1]
    assert (result.counts.rollouts, result.counts.failed) == (3, 1)


@pytest.mark.parametrize(("policy", "trained", "credited"), [("train", 2, 2), ("zero_advantage", 2, 0), ("drop", 0, 0)])
def test_truncated_rollouts_follow_the_policy(
    policy: Literal["train", "zero_advantage", "drop"], trained: int, credited: int
) -> None:
    group = (build_rollout(reward=1.0, truncated=True), build_rollout(index=1, reward=0.0))
    result = built(group, SamplePolicy(truncated=policy))
    assert sum(sample.trained for sample in result.samples[0]) == trained
    assert sum(np.count_nonzero(sample.advantages) for sample in result.samples[0]) == credited
    assert (result.counts.truncated, result.counts.dropped_truncated) == (1, int(policy == "drop"))
    assert result.samples[1][0].advantages.tolist() == [0, 0, -0.5, -0.5]  # its baseline knows the truncated one


def test_an_overlong_sample_is_dropped_whole_and_counted() -> None:
    group = (build_rollout(build_turn([1, 2], [3, 4, 5]), reward=1.0), build_rollout(index=1))
    result = built(group, SamplePolicy(max_tokens=4))
    assert [len(samples) for samples in result.samples] == [0, 1]
    assert result.counts.dropped_overlong == 1


def test_breaks_are_counted_over_the_group() -> None:
    broken = build_rollout(build_turn([1], [2, 3]), build_turn([1, 7], [4]), reward=1.0)
    result = built((broken, broken), SamplePolicy())
    assert (result.counts.breaks, result.counts.forks) == (2, 0)
