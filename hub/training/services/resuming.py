"""Resumes a run that ended before its last step, from its newest checkpoint or from an earlier one."""

from __future__ import annotations

import json
from collections.abc import Iterable

from django.db import transaction
from envhub.protocol.runs import RunState

from hub.accounts.models import Role, User
from hub.accounts.queries import require_role
from hub.core.errors import Conflict, NotFound
from hub.core.needs import Borrower
from hub.registry.readiness import reference_of
from hub.secrets.services import decrypt
from hub.training.models import Checkpoint, Step, TrainingRun, TrainingVersion, Use
from hub.training.queries import checkpoints_of
from hub.training.services.beginnings import discard_after
from hub.training.services.creating import check_runnable, place_of, queue_run, stored_config, tables
from hub.training.services.lifecycle import let_go, locked, needing
from hub.training.services.policy_models import require_unchanged

NOT_FINITE = "learner_not_finite"  # the code that workers.training.supervise.learner reports


def resume_training(*, user: User, training: TrainingRun, step: int | None = None) -> TrainingRun:
    """Queue a run that continues from the newest checkpoint, or starts over if there is none.

    With `step`, it continues from that step's checkpoint, and later work is deleted. Raises NotAllowed, NotFound (no
    checkpoint of that step), Conflict, Invalid.
    """
    require_role(user, training.owner, Role.MEMBER)
    now = TrainingRun.objects.select_related("model__base", "run").get(pk=training.pk)
    _check_ended(now, step)
    place = place_of(now, stored_config(now))
    with transaction.atomic():
        row = locked(training)
        _check_ended(row, step)
        require_unchanged(row)
        pinned = list(row.versions.select_related("version__environment__owner"))
        _check_pinned(row, pinned, Borrower(row.owner_id, user))
        if step is not None:
            _go_back(row, step)
        names = [reference_of(item.version) for item in pinned if item.use == Use.TRAIN]
        row.run = queue_run(row, user, stored_config(row), names, place)
        row.state, row.finished_at = RunState.QUEUED.value, None
        row.save(update_fields=["run", "state", "finished_at"])
    return row


def _check_pinned(row: TrainingRun, pinned: Iterable[TrainingVersion], borrower: Borrower) -> None:
    """Check that each version still runs with what its table provides. Raises Conflict, Invalid (the configuration)."""
    config = stored_config(row)
    placed = {(use.value, place): (use, table) for use, place, table in tables(config)}
    sent = json.loads(decrypt(row.encrypted_env)) if row.encrypted_env else {}
    for item in pinned:
        use, table = placed[item.use, item.position]
        check_runnable(item.version, config, use, item.position, table, borrower, sent=sent)


def can_go_back(training: TrainingRun) -> bool:
    """Return whether it may continue from an earlier checkpoint, even if it would fail again from its newest."""
    return training.is_final and training.state != RunState.SUCCEEDED.value


def is_resumable(training: TrainingRun) -> bool:
    """Return whether a resumed run would make progress instead of failing in the same way."""
    return can_go_back(training) and _failure_code(training) != NOT_FINITE


def _check_ended(row: TrainingRun, step: int | None) -> None:
    if not row.is_final:
        raise Conflict("the training run is still running", code="still_running", hint="stop it first, or wait")
    if row.state == RunState.SUCCEEDED.value:
        done = "every step is done" if row.step >= row.max_steps else f"nothing was left to learn after step {row.step}"
        raise Conflict(done, code="complete", hint="start a new run with checkpoint_id, or train its adapter")
    if _failure_code(row) == NOT_FINITE and step is None:
        raise Conflict(
            "its loss or gradient is not finite, and would be again: a resumed run has the same settings",
            code="not_finite",
            hint=_ways_out(row),
        )


def _failure_code(training: TrainingRun) -> str:
    failure = training.run.failure if training.run is not None else None
    return str(failure["code"]) if failure else ""


def _ways_out(training: TrainingRun) -> str:
    """Suggest how to continue, if possible from the newest checkpoint after a finite step."""
    skipped = Step.objects.filter(training=training, metrics__skipped="not_finite").values("step")
    sound = checkpoints_of(training).exclude(step__in=skipped).first()
    if sound is None:
        return "start another run with a smaller learning_rate and the same model"
    return (
        f'start another run with a smaller learning_rate and checkpoint_id = "{sound.pk}" (of step {sound.step}; '
        f"`hub train checkpoints {training.pk}` has more); or, if a machine caused it, go back to before it: "
        f"`hub train resume {training.pk} --step {sound.step}`"
    )


def _go_back(row: TrainingRun, step: int) -> None:
    """Delete everything after a step's checkpoint.

    The worker's own directory is then ahead of the hub, and replaced.
    """
    kept = checkpoints_of(row)
    if not kept.filter(step=step).exists():
        steps = ", ".join(str(one.step) for one in kept) or "none"
        raise NotFound(f"the checkpoint of step {step} is not available", hint=f"available: step {steps}")
    later = Checkpoint.objects.filter(training=row, step__gt=step)
    if needing(later, row).exists():
        raise Conflict(
            f"another training run started from a checkpoint after step {step}",
            code="in_use",
            hint="start a new run with checkpoint_id",
        )
    let_go(later)
    later.delete()
    discard_after(row, step)
