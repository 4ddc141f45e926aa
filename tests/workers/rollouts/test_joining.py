"""Both halves of a rollout in one record."""

from __future__ import annotations

import pytest
from envhub.protocol.evals.rollouts import Outcome, RolloutFailure, RolloutRecord, Turn, Usage
from envhub.protocol.registry.packages import Generation
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


@pytest.mark.parametrize(
    ("reported", "answers", "joined"),
    [
        (FailureKind.VERIFIER, [200, 400], FailureKind.JUDGE),
        (FailureKind.VERIFIER, [503], FailureKind.JUDGE),
        (FailureKind.VERIFIER, [429, 200], FailureKind.VERIFIER),
        (FailureKind.VERIFIER, [], FailureKind.VERIFIER),
        (FailureKind.LIMIT, [400], FailureKind.LIMIT),
    ],
)
def test_scoring_that_broke_after_the_judge_refused_is_the_judges_failure(
    reported: FailureKind, answers: list[int], joined: FailureKind
) -> None:
    failure = BROKEN.model_copy(update={"kind": reported})
    record = RolloutRecord(
        example=0, rollout=0, example_hash="0" * 64, outcome=Outcome.FAILED, reward=None, failure=failure
    )
    turns = [
        Turn(index=0, route="judge", protocol="chat", model="j", request={}, response={}, status=status, started_s=at)
        for at, status in enumerate(answers)
    ]
    done = RolloutDone(id="g", record=record)
    found = join(done, turns, [], generation=Generation.LEGACY, judge_usage=Usage()).failure
    assert found == failure.model_copy(update={"kind": joined})
