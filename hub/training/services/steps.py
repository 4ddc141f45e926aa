"""Stores steps and evaluations, idempotently. Steps that a later attempt discards are handled in `beginnings`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from django.db import transaction
from envhub.packaging.index_rows import LARGEST, MAX_METRICS
from envhub.protocol.base import Json
from envhub.protocol.evals.rollouts import Outcome
from envhub.protocol.runs import RunKind
from envhub.protocol.training.runs import EvaluationReport, StepReport, StepSegment, TrainingIndexRow

from hub.core.database_json import storable, storable_text
from hub.core.errors import Invalid
from hub.evals.metrics import count_ingested
from hub.evals.models import SNIPPET
from hub.runs.models import Run
from hub.runs.usage import note_tokens
from hub.storage.models import Blob
from hub.storage.services import confirm_blob
from hub.training.models import Step, TrainingEvaluation, TrainingRollout, TrainingRun
from hub.training.models import StepSegment as SegmentRow
from hub.training.services.lifecycle import locked

Guard = Callable[[], Run]  # called inside the transaction; returns the caller's run, or raises if its attempt is over
LAST_STEP = 2**31 - 1


def report_step(*, training: TrainingRun, report: StepReport, guard: Guard) -> bool:
    """Store a step with its rollouts; return False if it was stored before. Raises Invalid, StaleAttempt."""
    metrics = report.metrics
    if not 1 <= metrics.step <= LAST_STEP:
        raise Invalid("steps start at 1", fields={"metrics.step": str(metrics.step)})
    _check_rows([row for segment in report.segments for row in segment.rows])
    blobs = [confirm_blob(part.sha256, part.size, holder=training.owner_id) for part in report.segments]
    with transaction.atomic():
        guard()
        row = locked(training)
        told = storable(bounded(metrics.model_dump(mode="json", exclude={"evaluations"})))
        step, new = Step.objects.get_or_create(training=row, step=metrics.step, defaults={"metrics": told})
        if not new:
            return False
        _store_rollouts(step, report.segments, blobs)
        _advance(row, step)
        for point in metrics.evaluations:
            _store_point(row, EvaluationReport(point=point))
        _note_tokens(row, report.segments)
    return True


def report_evaluation(*, training: TrainingRun, report: EvaluationReport, guard: Guard) -> bool:
    """Store an evaluation; return False if the same one was stored before. Raises StaleAttempt."""
    with transaction.atomic():
        guard()
        return _store_point(locked(training), report)


def _store_point(training: TrainingRun, report: EvaluationReport) -> bool:
    point = report.point
    value = storable(bounded(point.model_dump(mode="json")))
    key = {"training": training, "step": point.step, "label": storable_text(point.label)[:200]}
    row, created = TrainingEvaluation.objects.get_or_create(**key, defaults={"point": value})
    if created or row.point == value:
        return created
    row.point = value
    row.save(update_fields=["point"])
    return True


def bounded(value: Json) -> Json:
    """Return a copy whose numbers are clipped to LARGEST, so that charts, means and health can compute with them."""
    if isinstance(value, dict):
        return {key: bounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [bounded(item) for item in value]
    if isinstance(value, int | float) and abs(value) > LARGEST:
        return type(value)(LARGEST if value > 0 else -LARGEST)
    return value


def _advance(training: TrainingRun, step: Step) -> None:
    reward = step.metrics["reward_mean"]
    if reward is not None:
        training.best_reward = reward if training.best_reward is None else max(reward, training.best_reward)
    if step.step > training.step:
        training.step, training.latest = step.step, step.metrics
    training.save(update_fields=["step", "latest", "best_reward"])


def _store_rollouts(step: Step, segments: Sequence[StepSegment], blobs: Sequence[Blob]) -> None:
    for part, blob in zip(segments, blobs, strict=True):
        segment = SegmentRow.objects.create(step=step, blob=blob)
        TrainingRollout.objects.bulk_create(_rollout(step, segment, row) for row in part.rows)
    rows = [row for part in segments for row in part.rows]
    counting = partial(
        count_ingested,
        RunKind.TRAIN,
        [row.outcome for row in rows],
        segments=len(segments),
        completion_tokens=sum(row.completion_tokens for row in rows),
    )
    transaction.on_commit(counting)


def _note_tokens(training: TrainingRun, segments: Sequence[StepSegment]) -> None:
    tokens = sum(row.completion_tokens for part in segments for row in part.rows)
    note_tokens(owner_id=training.owner_id, kind=RunKind.TRAIN, model=training.model_name, prompt=0, completion=tokens)


def _rollout(step: Step, segment: SegmentRow, row: TrainingIndexRow) -> TrainingRollout:
    return TrainingRollout(
        step=step,
        segment=segment,
        index=row.index,
        environment=storable_text(row.environment)[:200],
        example=row.example,
        group=storable_text(row.group)[:64],
        outcome=row.outcome.value,
        failure_kind=row.failure_kind.value if row.failure_kind else "",
        failure_message=storable_text(row.failure_message)[:300],
        asked=storable_text(row.asked)[:SNIPPET],
        answered=storable_text(row.answered)[:SNIPPET],
        target=storable_text(row.target)[:SNIPPET],
        reward=row.reward,
        advantage=row.advantage,
        metrics=storable(row.metrics),
        admitted=row.admitted,
        dropped=storable_text(row.dropped)[:32],
        turns=row.turns,
        completion_tokens=row.completion_tokens,
        duration_s=row.duration_s,
        version_min=row.version_min,
        version_max=row.version_max,
        row_group=row.row_group,
        row=row.row,
    )


def _check_rows(rows: Iterable[TrainingIndexRow]) -> None:
    """Raises Invalid for values that no column can hold."""
    seen: set[int] = set()
    for row in rows:
        problem = "its index occurs twice" if row.index in seen else _problem(row)
        seen.add(row.index)
        if problem:
            raise Invalid(f"rollout {row.index}: {problem}", fields={f"segments.rows.{row.index}": problem})


def _problem(row: TrainingIndexRow) -> str:
    numbers = (row.reward or 0.0, row.advantage or 0.0, row.duration_s, *row.metrics.values())
    if not all(abs(number) <= LARGEST for number in numbers):  # also False for NaN
        return "a reward, advantage, metric or duration is not a usable number"
    if len(row.metrics) > MAX_METRICS:
        return f"more than {MAX_METRICS} metrics"
    versions = [version for version in (row.version_min, row.version_max) if version is not None]
    if not all(0 <= count < 2**31 for count in (row.index, row.example, row.turns, *versions)):
        return "an index, an example or a version is out of range"
    if not all(0 <= n < 2**15 for n in (row.row_group, row.row)) or not 0 <= row.completion_tokens < 2**53:
        return "a position or a token count is out of range"
    if row.outcome is Outcome.FAILED and row.reward is not None:
        return "a failed rollout has no reward"
    return ""
