"""Converts training rows to wire types."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from envhub.protocol.evals.rollouts import Outcome
from envhub.protocol.runs import Failure, FailureKind, RunState
from envhub.protocol.training.cluster_need import cluster_split
from envhub.protocol.training.gpu_need import engine_of
from envhub.protocol.training.health import health
from envhub.protocol.training.metrics import StepMetrics
from envhub.protocol.training.runs import AdapterView, CheckpointView, TrainingRolloutRow, TrainingRunView
from envhub.protocol.training.trainer import TrainerTable, TrainingMode
from envhub.protocol.visibility import Visibility
from pydantic import ValidationError

from hub.accounts.models import Role
from hub.accounts.queries import Caller, has_role
from hub.evals.annotations import labels_of
from hub.evals.hidden_values import shown_outside
from hub.registry.readiness import reference_of
from hub.runs.placing.waiting import waiting_reasons
from hub.training.annotation_targets import TRAINING
from hub.training.models import Adapter, Checkpoint, TrainingRollout, TrainingRun, TrainingVersion, Use
from hub.training.queries import adapters_of, evaluation_points, recent_metrics

INTERRUPTED = {"cancelled", "worker_stopped", "worker_lost"}  # codes of hub.runs.services


def training_views(rows: list[TrainingRun], *, now: datetime, inside: Collection[UUID] = ()) -> list[TrainingRunView]:
    """Return runs of hub.training.queries for a list, with why queued ones wait (three queries for all).

    inside: the owners of which the viewer sees all settings.
    """
    reasons = waiting_reasons([row.run for row in rows if row.run is not None], now=now)
    return [training_view(row, reasons, inside=row.owner_id in inside) for row in rows]


def training_view(row: TrainingRun, reasons: dict[UUID, str], *, inside: bool = False) -> TrainingRunView:
    """Return one run as lists show it."""
    run = row.run
    return TrainingRunView(
        id=str(row.pk),
        owner=row.owner.slug,
        name=row.name,
        state=RunState(row.state),
        run_id=str(row.run_id) if row.run_id else None,
        model=row.model_name,
        mode=TrainingMode(row.mode),
        environments=tuple(reference_of(item.version) for item in trained_on(row)),
        labels=processes_of(row),
        step=row.step,
        max_steps=row.max_steps,
        config=row.config if inside else shown_outside(row.config),
        placement=placement_of(row),
        latest=StepMetrics.model_validate(row.latest) if row.latest else None,
        best_reward=row.best_reward,
        waiting_for=reasons.get(run.pk) if run else None,
        failure=failure_of(row),
        visibility=Visibility(row.visibility),
        created_by=row.created_by.username,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )


def placement_of(row: TrainingRun) -> str:
    """Describe how a run is divided over several hosts; "" for others.

    Tolerates a stored trainer that is now invalid.
    """
    if row.run is None or row.run.hosts == 1:
        return ""
    try:
        trainer = TrainerTable.model_validate(row.config["trainer"])
    except ValidationError:
        return f"on {row.run.hosts} hosts"
    split = cluster_split(trainer, engine_of(trainer, row.engine))
    return split.words() if row.run.gpus else replace(split, engine_gpus_each=0).words()


def failure_of(row: TrainingRun) -> Failure | None:
    """Return why its current run ended. For an interruption, the hint is to resume the run."""
    if row.run is None or not row.run.failure:
        return None
    failure = Failure.model_validate(row.run.failure)
    if failure.code not in INTERRUPTED:
        return failure
    return failure.model_copy(update={"hint": f"`hub train resume {row.pk}` goes on from its newest checkpoint"})


def trained_on(row: TrainingRun) -> list[TrainingVersion]:
    """Return each version trained on once, in order, even if several tables of the configuration name it."""
    found: dict[UUID, TrainingVersion] = {}
    for item in row.versions.all():
        if item.use == Use.TRAIN:
            found.setdefault(item.version_id, item)
    return list(found.values())


def processes_of(row: TrainingRun) -> tuple[str, ...]:
    """Return the names of the run's environments in charts and the log."""
    return tuple(sorted({item.label for item in row.versions.all()}))


def training_detail(row: TrainingRun, *, now: datetime, caller: Caller) -> TrainingRunView:
    """Return one run with its TOML, evaluations, health and adapters; its trace id only for members of its owner."""
    (view,) = training_views([row], now=now)
    inside = has_role(caller, row.owner, Role.READER)
    more = {
        "toml": toml_for(row, inside=inside),
        **({"config": row.config} if inside else {}),
        "evaluations": evaluation_points(row),
        "health": health(recent_metrics(row)),
        "adapters": tuple(adapter_view(adapter) for adapter in adapters_of(row)),
        "trace_id": row.run.trace_id if row.run and inside else None,
    }
    return view.model_copy(update=more)


def toml_for(row: TrainingRun, *, inside: bool) -> str:
    """Return the TOML as it was submitted; people outside see none that has what is not shown to them."""
    return row.toml if inside or shown_outside(row.config) == row.config else ""


def rollout_rows(rows: Sequence[TrainingRollout]) -> list[TrainingRolloutRow]:
    """Return a page of a list, with its labels; each row's step must be loaded."""
    labels = labels_of([row.pk for row in rows], TRAINING)
    return [rollout_row(row, row.step.step, labels.get(row.pk, ())) for row in rows]


def rollout_row(row: TrainingRollout, step: int, labels: tuple[str, ...] = ()) -> TrainingRolloutRow:
    """Return one rollout in a list."""
    return TrainingRolloutRow(
        step=step,
        index=row.index,
        environment=row.environment,
        example=row.example,
        group=row.group,
        outcome=Outcome(row.outcome),
        reward=row.reward,
        advantage=row.advantage,
        metrics=row.metrics,
        admitted=row.admitted,
        dropped=row.dropped,
        failure_kind=FailureKind(row.failure_kind) if row.failure_kind else None,
        failure_message=row.failure_message,
        asked=row.asked,
        answered=row.answered,
        target=row.target,
        turns=row.turns,
        completion_tokens=row.completion_tokens,
        duration_s=row.duration_s,
        version_min=row.version_min,
        version_max=row.version_max,
        labels=labels,
    )


def checkpoint_view(row: Checkpoint) -> CheckpointView:
    """Return a checkpoint."""
    return CheckpointView(
        id=str(row.pk),
        training_id=str(row.training_id),
        step=row.step,
        size=row.size,
        files=row.file_count,
        final=row.final,
        created_at=row.created_at,
    )


def adapter_view(row: Adapter) -> AdapterView:
    """Return what a run has added to the catalog; `model__owner` must be loaded."""
    return AdapterView(
        id=str(row.pk),
        owner=row.model.owner.slug,
        name=row.model.name,
        training_id=str(row.training_id) if row.training_id else None,
        step=row.step,
        mode=TrainingMode(row.mode),
        base=row.base_name,
        rank=row.rank,
        size=row.size,
        reward_mean=row.reward_mean,
        final=row.final,
        visibility=Visibility(row.model.visibility),
        created_at=row.created_at,
    )
