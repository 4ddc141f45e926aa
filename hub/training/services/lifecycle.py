"""What happens to a training run after its start: following its run, stopping, sharing, deleting."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from envhub.protocol.runs import RunState
from envhub.protocol.training.metrics import StepMetrics
from envhub.protocol.visibility import Visibility

from hub.accounts.models import Owner, Role, User
from hub.accounts.queries import require_role
from hub.catalog.models import Model
from hub.core.errors import Conflict
from hub.runs.models import Run
from hub.runs.services import request_cancel
from hub.runs.transitions import FINAL, HELD
from hub.training.models import Checkpoint, TrainingRun


def follow_run(run: Run, old: RunState, new: RunState) -> None:
    """`RunKindSpec.on_transition`: copy the state of the current run to its training run."""
    rows = TrainingRun.objects.filter(run=run)
    rows.update(state=new.value, finished_at=timezone.now() if new.is_final else None)
    if new is RunState.RUNNING:
        rows.filter(started_at=None).update(started_at=run.started_at)


def outcome_of(run: Run) -> str:
    """Summarise the result of a run's training: "12 of 12 steps, reward 0.393, at best 0.420"."""
    found = TrainingRun.objects.filter(run=run).first()
    if found is None or not found.step:
        return ""
    reward = StepMetrics.model_validate(found.latest).reward_mean if found.latest else None
    said = [f"{found.step} of {found.max_steps} steps"]
    said += [f"reward {reward:.3f}"] if reward is not None else []
    said += [f"at best {found.best_reward:.3f}"] if reward is not None and found.best_reward is not None else []
    return ", ".join(said)


def stop_training(*, user: User, training: TrainingRun) -> None:
    """Ask the run to stop; what is stored stays. Idempotent. Raises NotAllowed, Conflict if it has ended."""
    require_role(user, training.owner, Role.MEMBER)
    if training.run is None:
        raise Conflict("this training run is not running", code="not_running")
    request_cancel(run=training.run)


def share_training(*, user: User, training: TrainingRun, visibility: Visibility) -> None:
    """Set who may see the run and call what it has added to the catalog: a run's weights are as public as the run.

    A public run is visible only while all its environments are public. Raises NotAllowed.
    """
    require_role(user, training.owner, Role.MEMBER)
    with transaction.atomic():
        row = locked(training)
        row.visibility = visibility.value
        row.save(update_fields=["visibility"])
        Model.objects.filter(adapter__training=row).update(visibility=visibility.value)


def delete_training(*, user: User, training: TrainingRun) -> None:
    """Delete a run with its metrics, rollouts and checkpoints; what it added to the catalog stays.

    Raises NotAllowed, Conflict while it is going on or while another run exists that began from one of its checkpoints.
    """
    require_role(user, training.owner, Role.MEMBER)
    with transaction.atomic():
        row = locked(training)
        if not row.is_final:
            raise Conflict("the training run is still running", code="still_running", hint="stop it first")
        if _has_successors(row):
            hint = "delete that run first, or wait until it has a checkpoint of its own if it is somebody else's"
            raise Conflict("another training run started from one of its checkpoints", code="in_use", hint=hint)
        let_go(Checkpoint.objects.filter(training=row))
        row.delete()


def _has_successors(row: TrainingRun) -> bool:
    return needing(Checkpoint.objects.filter(training=row), row).exists()


def needing(checkpoints: QuerySet[Checkpoint], row: TrainingRun) -> QuerySet[TrainingRun]:
    """Return the other runs for whose sake these checkpoints of `row` must stay.

    The owner's own keep them for the lineage; others' only while they run and have no checkpoint of their own, or
    strangers could keep a run that was public for a day from being deleted.
    """
    others = TrainingRun.objects.filter(warm_start__in=checkpoints).exclude(pk=row.pk)
    return others.filter(Q(owner=row.owner_id) | Q(checkpoints=None, state__in=HELD)).distinct()


def let_go(checkpoints: QuerySet[Checkpoint]) -> None:
    """Have no run begin from these checkpoints any more, so that they can be deleted."""
    TrainingRun.objects.filter(warm_start__in=checkpoints).update(warm_start=None)


def ended_trainings(owner: Owner, before: datetime) -> QuerySet[TrainingRun]:
    """`RetentionRule.ended`: return private runs that have ended; public ones stay until their owner deletes them."""
    private = TrainingRun.objects.filter(owner=owner, visibility=Visibility.PRIVATE.value)
    return private.filter(state__in=FINAL, finished_at__lt=before)


def forget_training(key: UUID, before: datetime) -> bool:
    """`RetentionRule.forget`: delete a training run with its run, unless another began from it. Its adapters stay."""
    with transaction.atomic():
        rows = TrainingRun.objects.select_for_update(of=("self",))
        private = rows.filter(pk=key, visibility=Visibility.PRIVATE.value)
        row = private.filter(state__in=FINAL, finished_at__lt=before).first()
        if row is None or _has_successors(row):
            return False
        let_go(Checkpoint.objects.filter(training=row))
        row.delete()
        if row.run is not None:
            row.run.delete()
        return True


def locked(training: TrainingRun) -> TrainingRun:
    """Return the current row of the training run, locked until the transaction ends."""
    rows = TrainingRun.objects.select_for_update(of=("self",)).select_related("owner", "model__base", "run")
    return rows.get(pk=training.pk)
