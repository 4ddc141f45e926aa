from __future__ import annotations

from typing import Any

import pytest

from tests.factories.training import build_candidate, build_group, build_rollout, build_turn
from workers.training.admission.candidate import Candidate
from workers.training.admission.difficulty import DifficultyBuffer, DifficultyOptions
from workers.training.admission.errors import NothingToLearn
from workers.training.admission.filters import RepetitionFilter
from workers.training.admission.queue import AdmissionOptions, AdmissionQueue, Verdict


def queue(**options: Any) -> AdmissionQueue:
    return AdmissionQueue(AdmissionOptions(**{"groups_per_batch": 2, **options}))


def good(group: int = 0, version: int = 0) -> Candidate:
    rewards = (1.0, 0.0)
    turns = [build_turn([1, 2], [3, 4], version=version) for _ in rewards]
    return build_candidate(
        [build_rollout(turn, group=group, index=at, reward=rewards[at]) for at, turn in enumerate(turns)]
    )


def test_a_batch_is_taken_when_enough_groups_wait() -> None:
    waiting = queue()
    assert waiting.offer(good(1), step=1) is Verdict.ADMITTED
    assert waiting.take(1) is None
    waiting.offer(good(2), step=1)
    waiting.offer(good(3), step=1)
    taken = waiting.take(1)
    assert taken is not None
    assert [one.group for one in taken] == [1, 2]
    assert len(waiting) == 1


def test_a_group_without_signal_is_refused_and_its_place_stays_missing() -> None:
    waiting = queue()
    assert waiting.offer(build_candidate(build_group(1.0, 1.0)), step=1) is Verdict.ZERO_SIGNAL
    assert waiting.missing == 2
    assert waiting.verdicts == {Verdict.ZERO_SIGNAL: 1}


def test_a_group_without_signal_can_be_let_in() -> None:
    waiting = queue(drop_zero_signal=False)
    assert waiting.offer(build_candidate(build_group(1.0, 1.0)), step=1) is Verdict.ADMITTED


def test_a_group_that_failed_wholly_is_refused() -> None:
    assert queue().offer(build_candidate(build_group(None, None)), step=1) is Verdict.NOTHING_TRAINS


def test_a_partly_failed_group_trains_on_the_rest() -> None:
    waiting = queue(groups_per_batch=1)
    assert waiting.offer(build_candidate(build_group(1.0, None, 0.0)), step=1) is Verdict.ADMITTED


@pytest.mark.parametrize(("step", "verdict"), [(3, Verdict.ADMITTED), (4, Verdict.STALE)])
def test_a_group_may_be_as_old_as_the_bound(step: int, verdict: Verdict) -> None:
    assert queue(max_off_policy=2).offer(good(version=0), step=step) is verdict


def test_staleness_counts_from_the_oldest_token() -> None:
    old, new = build_turn([1], [2], version=0), build_turn([1, 2, 9], [3], version=4)
    group = [build_rollout(old, new, reward=1.0), build_rollout(new, index=1)]
    assert queue(max_off_policy=3).offer(build_candidate(group), step=5) is Verdict.STALE


def test_groups_that_grew_old_while_they_waited_are_swept() -> None:
    waiting = queue(max_off_policy=0)
    waiting.offer(good(1, version=0), step=1)
    waiting.offer(good(2, version=1), step=1)
    assert [one.group for one in waiting.sweep(2)] == [1]
    assert waiting.missing == 1
    assert waiting.verdicts == {Verdict.ADMITTED: 1, Verdict.STALE: 1}


def test_in_order_a_batch_has_the_lowest_numbers_whatever_arrived_first() -> None:
    waiting = queue(in_order=True)
    for group in (4, 2, 3):
        waiting.offer(good(group), step=1)
    taken = waiting.take(1)
    assert taken is not None
    assert [one.group for one in taken] == [2, 3]
    assert (len(waiting), waiting.take(1)) == (1, None)


def test_a_filter_that_leaves_no_signal_refuses_the_group() -> None:
    waiting = queue(filters=[RepetitionFilter(enforce=True, window=1, prob_threshold=0.5)])
    assert waiting.offer(good(), step=1) is Verdict.FILTERED
    assert waiting.removed == {"repetition": 2}


def test_online_difficulty_refuses_and_remembers() -> None:
    buffer = DifficultyBuffer(DifficultyOptions(easy_threshold=1.0, online_difficulty_filtering=True))
    waiting = AdmissionQueue(AdmissionOptions(groups_per_batch=1), {"toy": buffer})
    assert waiting.offer(build_candidate(build_group(1.0, 1.0)), step=1) is Verdict.DIFFICULTY
    assert buffer.state()["easy"] == [0]


def test_a_run_that_learns_nothing_for_long_ends_with_the_reason() -> None:
    waiting = queue(groups_per_batch=1, barren_groups=2)
    solved = build_candidate(build_group(1.0, 1.0))
    waiting.offer(solved, step=1)
    waiting.offer(good(), step=1)  # starts the count anew
    waiting.offer(solved, step=1)
    with pytest.raises(
        NothingToLearn, match=r"2 groups in a row could not train \(zero signal 2; mean reward 1.00\)"
    ) as told:
        waiting.offer(solved, step=1)
    assert "rollouts_per_example" in told.value.hint


@pytest.mark.parametrize(("rewards", "mastered"), [((1.0, 1.0), True), ((0.0, 0.0), False)])
def test_a_task_is_mastered_when_what_is_refused_was_rewarded_better(
    rewards: tuple[float, float], mastered: bool
) -> None:
    waiting = queue(groups_per_batch=1, barren_groups=1)
    waiting.offer(good(), step=1)
    with pytest.raises(NothingToLearn) as caught:
        waiting.offer(build_candidate(build_group(*rewards)), step=1)
    assert caught.value.mastered is mastered


def test_nothing_is_mastered_before_anything_was_trained() -> None:
    with pytest.raises(NothingToLearn) as caught:
        queue(groups_per_batch=1, barren_groups=1).offer(build_candidate(build_group(1.0, 1.0)), step=1)
    assert not caught.value.mastered
