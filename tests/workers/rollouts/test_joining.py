"""Both halves of a rollout in one record."""

from __future__ import annotations

import pytest
from envhub.protocol.packages import Generation
from envhub.protocol.rollouts import Outcome, RolloutFailure, RolloutRecord, Usage
from envhub.protocol.runner import RolloutDone
from envhub.protocol.runs import FailureKind

from workers.rollouts.joining import join

BROKEN = RolloutFailure(kind=FailureKind.ENVIRONMENT, type="Error", message="broken")


@pytest.mark.parametrize(
    ("outcome", "failure", "joined"),
    [
        (Outcome.OK, None, Outcome.TRUNCATED),
        (Outcome.TRUNCATED, None, Outcome.TRUNCATED),
        (Outcome.FAILED, BROKEN, Outcome.FAILED),
    ],
)
def test_a_rollout_whose_budget_was_spent_is_truncated_and_keeps_its_reward(
    outcome: Outcome, failure: RolloutFailure | None, joined: Outcome
) -> None:
    reward = None if failure else 0.5
    reported = RolloutRecord(
        example=0, rollout=0, example_hash="0" * 64, outcome=outcome, reward=reward, failure=failure
    )
    done = RolloutDone(id="g", record=reported)
    record = join(done, [], [], generation=Generation.LEGACY, judge_usage=Usage(), budget_spent=True)
    assert (record.outcome, record.reward, record.failure) == (joined, reward, failure)
