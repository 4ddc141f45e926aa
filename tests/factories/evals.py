"""Evaluations, records and segments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db import transaction
from envhub.packaging.index_rows import index_rows
from envhub.packaging.segments import positions, write_segment
from envhub.protocol.evals.evaluations import EvaluationConfig, EvaluationPush, IndexRow, SegmentRequest
from envhub.protocol.evals.rollouts import Outcome, RolloutFailure, RolloutRecord, Timing, TokenData, Turn, Usage
from envhub.protocol.runs import FailureKind, RunState

from hub.accounts.models import User
from hub.catalog.models import Model
from hub.evals.models import Evaluation
from hub.evals.services import add_segment, create_evaluation, push_evaluation
from hub.evals.services.ranking import rank
from tests.factories.accounts import make_user
from tests.factories.catalog import create_endpoint
from tests.factories.registry import create_ready_version
from tests.factories.runs import hold_run
from tests.factories.storage import make_blob


def make_record(example: int = 0, rollout: int = 0, reward: float | None = 1.0, **changes: object) -> RolloutRecord:
    """A scored chat rollout of one turn with tokens."""
    turn = Turn(
        index=0,
        protocol="chat",
        model="alice/stub",
        request={"messages": [{"role": "user", "content": f"question {example}"}]},
        response={"choices": []},
        tokens=TokenData(prompt_ids=(1, 2), completion_ids=(3,), logprobs=(-0.5,)),
    )
    fields: dict[str, object] = {
        "example": example,
        "rollout": rollout,
        "example_hash": f"{example:064x}",
        "outcome": Outcome.OK,
        "reward": reward,
        "metrics": {"exact": reward},
        "prompt": [{"role": "user", "content": f"question {example}"}],
        "completion": [{"role": "assistant", "content": "answer"}],
        "turns": (turn,),
        "usage": Usage(prompt_tokens=2, completion_tokens=1),
        "timing": Timing(total_s=1.0),
    }
    return RolloutRecord.model_validate(fields | changes)


def make_failure(
    example: int = 0, rollout: int = 0, kind: FailureKind = FailureKind.INFRASTRUCTURE, **changes: object
) -> RolloutRecord:
    """A failed rollout."""
    failure = RolloutFailure(kind=kind, type="Timeout", message="no answer")
    failed = {"outcome": Outcome.FAILED, "metrics": {}, "failure": failure}
    return make_record(example, rollout, None, **(failed | changes))


def make_records(*rewards: Sequence[float]) -> list[RolloutRecord]:
    """One example for each sequence of rewards."""
    return [make_record(g, i, reward) for g, cluster in enumerate(rewards) for i, reward in enumerate(cluster)]


def make_segment(records: Sequence[RolloutRecord], rows: Iterable[IndexRow] | None = None) -> SegmentRequest:
    """An uploaded segment and the call that registers it."""
    content = write_segment(records)
    blob = make_blob(content)
    return SegmentRequest(
        sha256=blob.sha256, size=blob.size, rows=tuple(rows or index_rows(records, positions(content)))
    )


def make_config(environment: str, model: str, **changes: object) -> EvaluationConfig:
    """Two examples, two rollouts each."""
    fields = {"environment": environment, "model": model, "num_examples": 2, "rollouts_per_example": 2}
    return EvaluationConfig.model_validate(fields | changes)


def create_hosted(user: User | None = None, *, name: str = "tiny-env", **changes: object) -> Evaluation:
    """A queued evaluation of a ready version by the user's own endpoint."""
    user = user or make_user()
    if not user.owner.environments.filter(name=name).exists():
        create_ready_version(user, name)
    if not Model.objects.filter(owner=user.owner, name="stub").exists():
        create_endpoint(user)
    reference = f"{user.username}/{name}"
    config = make_config(reference, f"{user.username}/stub", **changes)
    return create_evaluation(user=user, owner=user.owner, config=config)


def start(evaluation: Evaluation) -> str:
    """Put the run into a worker's hands; its run token."""
    assert evaluation.run is not None
    token = hold_run(evaluation.run)
    evaluation.refresh_from_db()
    return token


def store(evaluation: Evaluation, records: Sequence[RolloutRecord]) -> int:
    """Store records as a worker of this hub would."""
    return add_segment(evaluation=evaluation, request=make_segment(records), trusted=True)


def succeed(evaluation: Evaluation, **fields: object) -> None:
    """As it is, with these fields, once it has succeeded: counted where it then belongs."""
    with transaction.atomic():
        Evaluation.objects.filter(pk=evaluation.pk).update(state=RunState.SUCCEEDED.value, **fields)
        evaluation.refresh_from_db()
        rank(evaluation)


def create_pushed(user: User, environment: str, *, fingerprint: str = "a" * 64, **changes: object) -> Evaluation:
    """An upload that has begun."""
    config = make_config(environment, "gpt-x", **changes)
    request = EvaluationPush(
        environment=environment, model="gpt-x", fingerprint=fingerprint, config=config, format="results.jsonl"
    )
    return push_evaluation(user=user, owner=user.owner, request=request)
