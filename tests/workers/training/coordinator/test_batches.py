"""What becomes of finished groups: batches of whole groups, and a reason for everything that is left out."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from envhub.protocol.evals.rollouts import Outcome
from envhub.protocol.runs import FailureKind
from envhub.protocol.training.config import TrainingConfig

from tests.workers.training.coordinator.groups import group, record, turn
from workers.runs.errors import RunFailed
from workers.training.admission.errors import NothingToLearn
from workers.training.coordinator.batches import Batches
from workers.training.coordinator.plan import FinishedGroup


def batches(**config: Any) -> Batches:
    base = {"model": "hub/tiny", "env": [{"id": "alice/a"}], "batch_size": 4, "rollouts_per_example": 2}
    return Batches(TrainingConfig.model_validate(base | config), {}, 64)


def test_a_batch_is_cut_when_its_groups_are_there() -> None:
    made = batches()
    made.offer(group(0, [0.0, 1.0]), 1)
    assert made.cut(1, 0) is None
    made.offer(group(1, [1.0, 0.0]), 1)
    cut = made.cut(1, 0)
    assert cut is not None
    assert [one.credited.finished.plan.number for one in cut.resolved] == [0, 1]
    assert (len(cut.samples), cut.denominator, cut.metrics.trained_tokens) == (4, 12.0, 12)
    assert made.waiting == ()


def test_an_environments_own_group_size_does_not_change_how_many_rollouts_a_batch_has() -> None:
    own = {"id": "alice/a", "group_size": 4}
    made = batches(env=[own], batch_size=4, rollouts_per_example=2)
    made.offer(group(0, [0.0, 1.0, 0.0, 1.0]), 1)
    cut = made.cut(1, 0)
    assert cut is not None
    assert len(cut.samples) == 4


def test_groups_of_different_sizes_fill_a_batch_by_their_shares_of_the_rollouts() -> None:
    tables = [{"id": "alice/a", "ratio": 3}, {"id": "alice/b", "ratio": 1, "group_size": 8}]
    config = {"model": "hub/tiny", "env": tables, "batch_size": 32, "rollouts_per_example": 4}
    assert TrainingConfig.model_validate(config).groups_per_step == 6 + 1


def test_advantages_are_against_the_groups_mean() -> None:
    made = batches(batch_size=2)
    made.offer(group(0, [0.0, 1.0]), 1)
    cut = made.cut(1, 0)
    assert cut is not None
    assert [float(sample.advantages[-1]) for sample in cut.samples] == [-0.5, 0.5]


def test_groups_of_one_reward_are_left_out_and_counted() -> None:
    made = batches(batch_size=2)
    made.offer(group(0, [1.0, 1.0]), 1)
    made.offer(group(1, [0.0, 1.0]), 1)
    cut = made.cut(1, 0)
    assert cut is not None
    assert [one.dropped for one in cut.resolved] == ["zero_signal", ""]
    assert cut.metrics.dropped == {"zero_signal": 2}
    assert cut.metrics.zero_signal_share == 0.5
    assert cut.metrics.reward_mean == 0.75  # over all that was sampled


def test_without_the_filter_they_train() -> None:
    made = batches(batch_size=2, pre_batch_filters=[])
    made.offer(group(0, [1.0, 1.0]), 1)
    cut = made.cut(1, 0)
    assert cut is not None
    assert not np.any([sample.advantages.any() for sample in cut.samples])


AFTERWARDS = {"pre_batch_filters": [], "post_batch_filters": [{"type": "zero_advantage", "enforce": True}]}


@pytest.mark.parametrize(("learnt", "left", "mastered"), [([0.0, 1.0], 1.0, True), ([0.0, 1.0], 0.0, False)])
def test_batches_that_the_last_filters_empty_one_after_the_other_end_the_run(
    learnt: list[float], left: float, mastered: bool
) -> None:
    made = batches(batch_size=2, **AFTERWARDS)
    made.offer(group(0, learnt), 1)
    assert made.cut(1, 0) is not None
    for number in range(1, 10):
        made.offer(group(number, [left, left]), 2)
        assert made.cut(2, 0) is None
    made.offer(group(10, [left, left]), 2)
    with pytest.raises(NothingToLearn, match="post_batch_filters") as caught:
        made.cut(2, 0)
    assert caught.value.mastered is mastered


def test_a_run_in_which_everything_fails_ends_with_the_reason_of_most() -> None:
    made = batches()
    for number in range(127):
        made.offer(group(number, [None, None]), 1)
    with pytest.raises(NothingToLearn, match=r"of 256 rollouts 256 failed \(most: broken\)$") as caught:
        made.offer(group(127, [None, None]), 1)
    assert caught.value.fault is FailureKind.ENVIRONMENT


def test_a_run_whose_prompts_fill_the_context_ends_with_that_reason() -> None:
    made = batches()
    mute = [record(0, index, index, turn(0, range(64), [])) for index in range(2)]
    groups = [group(number, [0.0, 1.0]).model_copy(update={"records": tuple(mute)}) for number in range(128)]
    for one in groups[:-1]:
        made.offer(one, 1)
    with pytest.raises(NothingToLearn, match=r"of 256 rollouts 256 have no sampled token") as caught:
        made.offer(groups[-1], 1)
    assert caught.value.fault is FailureKind.POLICY


@pytest.mark.parametrize("content", ["an answer that", 5, None, [{"text": "an answer that"}]])
def test_a_run_that_ends_before_its_first_step_shows_what_was_answered(content: Any) -> None:
    made, log = batches(), list[str]()
    made.log = log.append
    messages = {"prompt": [{"role": "user", "content": "2+2?"}], "completion": [{"content": content}]}
    for number in range(128):
        found = group(number, [0.0, 0.0])
        cut_off = [one.model_copy(update={"outcome": Outcome.TRUNCATED, **messages}) for one in found.records]
        offered = found.model_copy(update={"records": tuple(cut_off)})
        if number < 127:
            made.offer(offered, 1)
    with pytest.raises(NothingToLearn, match="of 256 rollouts 256 were cut off by a limit") as caught:
        made.offer(offered, 1)
    assert "log" in caught.value.hint
    text = content if isinstance(content, str) else json.dumps(content)
    assert log[-1] == f"for example a, example 127: {text!r} earned 0; the prompt ends in '2+2?'"
    assert len(log) == 3


def test_what_has_become_too_old_is_left_out() -> None:
    made = batches(trainer={"max_off_policy": 1})
    made.offer(group(0, [0.0, 1.0], version=0), 2)
    made.offer(group(1, [0.0, 1.0], version=2), 3)
    assert made.cut(3, 0) is None
    made.offer(group(2, [0.0, 1.0], version=1), 3)
    cut = made.cut(3, 0)
    assert cut is not None
    assert [one.dropped for one in cut.resolved] == ["stale", "", ""]
    assert (cut.metrics.staleness_mean, cut.metrics.staleness_max) == (0.5, 1)


def test_failed_rollouts_do_not_count_for_the_mean() -> None:
    made = batches(batch_size=4, rollouts_per_example=4)
    made.offer(group(0, [0.0, 1.0, None, None]), 1)
    cut = made.cut(1, 0)
    assert cut is not None
    assert [float(sample.advantages[-1]) for sample in cut.samples] == [-0.5, 0.5]
    assert cut.metrics.environments["a"].failures == {"environment": 2}
    assert cut.metrics.failed_share == 0.5


def test_the_denominator_is_the_losss() -> None:
    for loss, denominator in (("dapo", 12.0), ("grpo", 4.0), ("gspo", 4.0), ("dr_grpo", 4 * 10.0)):
        made = batches(trainer={"loss": loss}, sampling={"max_tokens": 10})
        made.offer(group(0, [0.0, 1.0]), 1)
        made.offer(group(1, [0.0, 1.0]), 1)
        cut = made.cut(1, 0)
        assert cut is not None
        assert cut.denominator == denominator, loss


def test_dr_grpo_divides_by_the_longest_completion_that_an_environment_may_have() -> None:
    tables = [{"id": "alice/a", "sampling": {"max_tokens": 30}}, {"id": "alice/b"}]
    made = batches(trainer={"loss": "dr_grpo"}, sampling={"max_tokens": 10}, env=tables, batch_size=2)
    made.offer(group(0, [0.0, 1.0]), 1)
    cut = made.cut(1, 0)
    assert cut is not None
    assert cut.denominator == 2 * 30.0


def without_tokens(finished: FinishedGroup) -> FinishedGroup:
    bare = [one.turns[0].model_copy(update={"tokens": None}) for one in finished.records]
    records = tuple(one.model_copy(update={"turns": (turn,)}) for one, turn in zip(finished.records, bare, strict=True))
    return finished.model_copy(update={"records": records})


def test_an_engine_without_tokens_ends_the_run_with_a_hint() -> None:
    made = batches()
    for number in range(2):
        made.offer(without_tokens(group(number, [0.0, 1.0])), 1)
    with pytest.raises(RunFailed, match="token ids"):
        made.offer(without_tokens(group(2, [0.0, 1.0])), 1)


def test_one_group_that_cannot_be_trained_is_left_out_as_failed() -> None:
    said: list[str] = []
    made = batches(batch_size=2)
    made.log = said.append
    for number in range(6):  # never in a row
        finished = group(number, [0.0, 1.0])
        made.offer(finished if number % 2 else without_tokens(finished), 1)
    cut = made.cut(1, 0)
    assert cut is not None
    assert [one.dropped for one in cut.resolved] == ["nothing_trains", "", "nothing_trains", "nothing_trains"]
    assert cut.resolved[0].credited.finished.records[0].failure is not None
    assert cut.metrics.environments["a"].failures == {"environment": 6}
    assert len(said) == 3
    assert "token ids" in said[0]
