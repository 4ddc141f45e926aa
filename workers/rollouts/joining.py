"""Joins two halves into one record: what the runner reported and the turns that the interceptor saw."""

from __future__ import annotations

from collections.abc import Sequence

from envhub.packaging.calls import shortened
from envhub.protocol.evals.rollouts import Outcome, RolloutFailure, RolloutRecord, Turn, Usage
from envhub.protocol.registry.packages import Generation
from envhub.protocol.runner import RolloutDone
from envhub.protocol.runs import FailureKind

from workers.rollouts.agent_parts import by_agents
from workers.rollouts.interceptor.recorder import total_usage
from workers.rollouts.plausible import plausible
from workers.rollouts.step_credits import StepsDiffer, credited

POLICY, JUDGE = "policy", "judge"


def join(
    done: RolloutDone,
    own: Sequence[Turn],
    shared: Sequence[Turn],
    *,
    generation: Generation,
    judge_usage: Usage,
    budget_spent: bool = False,
) -> RolloutRecord:
    """Join them. `own` turns used the rollout's URL; of the group's `shared` turns, those it kept are added.

    A rollout whose budget was spent is truncated even if its environment took the refusal for a normal end.
    """
    kept = set(done.response_ids)
    turns = [*own, *(turn for turn in shared if turn.response_id in kept)]
    turns.sort(key=lambda turn: turn.started_s)
    # in the current generation every call of the policy route belongs to the rollout, if not to an agent's part of it
    if generation is not Generation.CURRENT:
        turns = [turn.model_copy(update={"trainable": turn.trainable and turn.response_id in kept}) for turn in turns]
    else:
        turns = by_agents(turns, done.agents)
    numbered = shortened([turn.model_copy(update={"index": index}) for index, turn in enumerate(turns)])
    asked = [turn for turn in numbered if turn.route == POLICY]
    reported = plausible(done.record)
    record = reported.model_copy(
        update={
            "turns": numbered,
            "usage": total_usage(asked) if asked else reported.usage,
            "judge_usage": judge_usage,
            "outcome": Outcome.TRUNCATED if budget_spent and reported.outcome is Outcome.OK else reported.outcome,
        }
    )
    try:
        return blame(record.model_copy(update={"turns": credited(numbered, done.steps)}))
    except StepsDiffer as error:
        return failed(record, FailureKind.VERIFIER, "BadStepRewards", str(error))


def blame(record: RolloutRecord) -> RolloutRecord:
    """Fail a rollout whose last model call had no answer as infrastructure, whatever its environment made of that.

    If a reward function failed after its judge refused, the failure is the judge's.
    """
    if record.outcome is Outcome.FAILED:
        return _by_judge(record) if _judge_refused(record.turns) else record
    for route, kind in ((POLICY, FailureKind.INFRASTRUCTURE), (JUDGE, FailureKind.JUDGE)):
        calls = [turn for turn in record.turns if turn.route == route]
        if calls and calls[-1].status >= 500:
            return failed(record, kind, "NoAnswer", calls[-1].error)
    return record


def _judge_refused(turns: Sequence[Turn]) -> bool:
    calls = [turn for turn in turns if turn.route == JUDGE]
    return bool(calls) and calls[-1].status >= 400


def _by_judge(record: RolloutRecord) -> RolloutRecord:
    failure = record.failure
    if failure is None or failure.kind is not FailureKind.VERIFIER:
        return record
    return record.model_copy(update={"failure": failure.model_copy(update={"kind": FailureKind.JUDGE})})


def failed(record: RolloutRecord, kind: FailureKind, name: str, message: str) -> RolloutRecord:
    """Return the same rollout as a failure, without a reward."""
    failure = RolloutFailure(kind=kind, type=name, message=message)
    return record.model_copy(update={"outcome": Outcome.FAILED, "reward": None, "advantage": None, "failure": failure})


def never_reported(example: int, rollout: int, example_hash: str, failure: RolloutFailure) -> RolloutRecord:
    """Make the record of a rollout that its runner did not report."""
    return RolloutRecord(
        example=example, rollout=rollout, example_hash=example_hash, outcome=Outcome.FAILED, failure=failure
    )


def is_infrastructure(record: RolloutRecord) -> bool:
    """Return whether a rollout failed by infrastructure."""
    return record.failure is not None and record.failure.kind is FailureKind.INFRASTRUCTURE
