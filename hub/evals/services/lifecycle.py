"""What happens to an evaluation after its start: following its run, cancelling, resuming, deleting."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from envhub.protocol.runs import RunState
from envhub.protocol.visibility import Visibility

from hub.accounts.models import Owner, Role, User
from hub.accounts.queries import require_role
from hub.core.errors import Conflict
from hub.core.needs import Borrower
from hub.evals.models import RETRIED_KINDS, Evaluation
from hub.evals.services.creating import brought_by, count_evaluation, queue_run, rows_of, stored_config
from hub.evals.services.ranking import rank, unrank
from hub.evals.services.shards import free_work
from hub.evals.statistics import Aggregate
from hub.evals.work import Work
from hub.registry.readiness import require_runnable
from hub.registry.services.environments import hide_cards, mark_cards
from hub.runs.models import Run
from hub.runs.services import request_cancel
from hub.runs.transitions import FINAL, HELD


def follow_run(run: Run, old: RunState, new: RunState) -> None:
    """`RunKindSpec.on_transition`: copy the state to the run's evaluation; free its examples once no worker has it."""
    if new not in HELD:
        free_work(run)
    finished_at = timezone.now() if new.is_final else None
    rows = Evaluation.objects.filter(run=run)
    rows.update(state=new.value, finished_at=finished_at)
    if new.is_final:
        for row in rows:
            rank(row)
        mark_cards(rows)


def outcome_of(run: Run) -> str:
    """Summarise the result of a run's evaluation, for example "mean reward 0.525 ± 0.087 over 20 rollouts"."""
    aggregate = Evaluation.objects.filter(run=run).values_list("aggregate", flat=True).first()
    reward = Aggregate.model_validate(aggregate).reward if aggregate else None
    if not reward or not reward.n:
        return "nothing scored"
    summary = reward.summary("reward")
    error = f" ± {summary.std_error:.3f}" if summary.std_error else ""
    return f"mean reward {summary.mean:.3f}{error} over {summary.count} rollout{'s' if summary.count != 1 else ''}"


def cancel_evaluation(*, user: User, evaluation: Evaluation) -> None:
    """Ask the run to stop; stored rollouts stay. Raises NotAllowed, Conflict if nothing is running."""
    require_role(user, evaluation.owner, Role.MEMBER)
    if evaluation.run is None or evaluation.is_final:
        raise Conflict("this evaluation is not running", code="not_running")
    request_cancel(run=evaluation.run)


def share_evaluation(*, user: User, evaluation: Evaluation, visibility: Visibility) -> None:
    """Set who may see the evaluation; a public one is visible only while its environment is public.

    Raises NotAllowed.
    """
    require_role(user, evaluation.owner, Role.MEMBER)
    with transaction.atomic():
        row = locked(evaluation)
        if row.visibility == visibility.value:
            return
        before = row.visibility
        row.visibility = visibility.value
        row.save(update_fields=["visibility"])
        rank(row)
        # Sorted, because two transactions that lock the counts in different orders could deadlock.
        for one, change in sorted({before: -1, row.visibility: 1}.items()):
            count_evaluation(row, change, visibility=one)
        if visibility is Visibility.PRIVATE:
            hide_cards(row.environment_id)
        else:
            mark_cards(Evaluation.objects.filter(pk=row.pk))


def resume_evaluation(*, user: User, evaluation: Evaluation) -> Evaluation:
    """Queue a run for the missing rollouts: scored ones are kept, infrastructure failures are attempted again.

    Raises NotAllowed, Conflict (self-reported, still running, or nothing missing), Invalid (its configuration).
    """
    require_role(user, evaluation.owner, Role.MEMBER)
    with transaction.atomic():
        row = locked(evaluation)
        _require_resumable(row, user)
        row.shards.all().delete()  # the last run's parts may still be ending, and must not hold examples of the new run
        config = stored_config(row)
        row.run, row.work = queue_run(row, user, config), Work.first(config).model_dump(mode="json")
        row.state, row.finished_at = RunState.QUEUED.value, None
        row.save(update_fields=["run", "work", "state", "finished_at"])
        rank(row)
        mark_cards(Evaluation.objects.filter(pk=row.pk))
    return row


def locked(evaluation: Evaluation) -> Evaluation:
    """Return the current row of the evaluation, locked until the transaction ends."""
    rows = Evaluation.objects.select_for_update(of=("self",))
    return rows.select_related("owner", "environment__owner", "version__environment__owner").get(pk=evaluation.pk)


def _require_resumable(evaluation: Evaluation, user: User) -> None:
    if not evaluation.is_hosted or evaluation.version is None:
        raise Conflict("a self-reported evaluation cannot be resumed on the hub", code="not_hosted")
    if not evaluation.is_final:
        raise Conflict("the evaluation is still running", code="still_running", hint="cancel it first, or wait")
    aggregate = Aggregate.model_validate(evaluation.aggregate)
    kept = aggregate.stored - sum(aggregate.outcomes.get(kind, 0) for kind in RETRIED_KINDS)
    if evaluation.planned and kept >= evaluation.planned:
        raise Conflict("all planned rollouts are complete", code="complete", hint="start a new evaluation for more")
    borrower = Borrower(evaluation.owner_id, user)
    config = stored_config(evaluation)
    require_runnable(evaluation.version, brought_by(config), borrower, rows=rows_of(config))


def delete_evaluation(*, user: User, evaluation: Evaluation) -> None:
    """Delete an evaluation with its rollouts. Raises NotAllowed, Conflict while its run is going on."""
    require_role(user, evaluation.owner, Role.MEMBER)
    with transaction.atomic():
        row = locked(evaluation)
        if row.is_hosted and not row.is_final:
            raise Conflict("the evaluation is still running", code="still_running", hint="cancel it first")
        _delete(row)


def _delete(row: Evaluation) -> None:
    unrank(row)
    count_evaluation(row, -1)
    mark_cards(Evaluation.objects.filter(pk=row.pk))
    row.delete()


def ended_evaluations(owner: Owner, before: datetime) -> QuerySet[Evaluation]:
    """`RetentionRule.ended`: return private evaluations that have ended; their owner deletes public ones."""
    private = Evaluation.objects.filter(owner=owner, visibility=Visibility.PRIVATE.value)
    return private.filter(state__in=FINAL, finished_at__lt=before)


def forget_evaluation(key: UUID, before: datetime) -> bool:
    """`RetentionRule.forget`: delete the evaluation with its run and log, unless it was resumed or shared meanwhile."""
    with transaction.atomic():
        rows = Evaluation.objects.select_for_update(of=("self",))
        private = rows.filter(pk=key, visibility=Visibility.PRIVATE.value)
        row = private.filter(state__in=FINAL, finished_at__lt=before).first()
        if row is None:
            return False
        _delete(row)
        if row.run is not None:
            row.run.delete()
        return True
