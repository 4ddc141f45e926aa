"""How an attempt ends: success, failure, cancellation, or back to the queue with a bounded number of retries."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from envhub.protocol.runs import Failure, FailureKind, FinishRequest, RunState

from hub.core.database_json import storable
from hub.core.errors import Conflict, Invalid
from hub.runs.errors import StaleAttempt
from hub.runs.models import Run
from hub.runs.placing.pace import note_pace
from hub.runs.services.dispatching import dispatch_on_commit
from hub.runs.services.logs import note_in_log
from hub.runs.transitions import move
from hub.runs.usage import cpu_columns, extra_gpu_columns

MAX_BACK_OFF_S = 300.0
MAX_RELEASES = 20  # attempts after which a worker that returns a run counts as a failure

CANCELLED = Failure(
    kind=FailureKind.CANCELLED, code="cancelled", message="the run was cancelled", hint="start it again"
)
RELEASED = Failure(
    kind=FailureKind.INFRASTRUCTURE,
    code="worker_stopped",
    message="the worker stopped before the run finished",
    hint="start it again when a worker is online",
)


def back_off(attempt: int) -> timedelta:
    """Return the wait after failed attempt number `attempt` (from 1): doubling, at most five minutes."""
    return timedelta(seconds=min(MAX_BACK_OFF_S, settings.HUB.retry_seconds * 2 ** (attempt - 1)))


def end_attempt(*, run: Run, to: RunState, now: datetime, failure: Failure | None = None) -> Run:
    """End the run for good. A failed run always has its failure, which is also written to its log."""
    if to is RunState.FAILED and failure is None:
        raise Invalid("a failed run must say why", fields={"failure": "missing"})
    with transaction.atomic():
        ended = move(
            run,
            to,
            finished_at=now,
            lease_expires_at=None,
            not_before=None,
            failure=None if failure is None else failure.model_dump(mode="json"),
        )
        if failure is not None:
            note_in_log(run=ended, text=f"{to.value}: {failure.message} [{failure.code}]")
        note_pace(ended)
    return ended


def requeue_run(*, run: Run, failure: Failure, now: datetime, wait: bool = True) -> Run:
    """Queue another attempt after a back-off or, if there have been too many, fail the run with `failure`.

    A requested cancellation takes precedence, even if it came after `run` was read.
    """
    with transaction.atomic():
        locked = Run.objects.select_for_update().filter(pk=run.pk)
        if locked.values_list("cancel_requested_at", flat=True).first() is not None:
            return end_attempt(run=run, to=RunState.CANCELLED, now=now, failure=CANCELLED)
        if run.attempt >= run.max_attempts:
            return end_attempt(run=run, to=RunState.FAILED, now=now, failure=failure)
        queued = move(
            run,
            RunState.QUEUED,
            worker=None,
            sent_to=None,
            sent_until=None,
            sends=0,
            token_digest="",
            lease_expires_at=None,
            not_before=now + back_off(run.attempt) if wait else None,
            progress=None,
        )
        note_in_log(run=queued, text=f"attempt {run.attempt} ended: {failure.message} [{failure.code}]; trying again")
        if not wait:
            dispatch_on_commit(run.queue)
    return queued


def finish_run(*, run: Run, request: FinishRequest, now: datetime) -> Run:
    """Apply the worker's final report on its attempt, inside a transaction. Repeating it is a no-op.

    Infrastructure failures return the run to the queue.
    """
    if RunState(run.state).is_final:
        if run.state != request.state and request.state is not RunState.QUEUED:
            raise StaleAttempt
        return run
    Run.objects.filter(pk=run.pk, attempt=run.attempt).update(
        **cpu_columns(request.cpu_seconds), **extra_gpu_columns(0, request.extra_gpu_seconds)
    )
    return _ended(run, request, now)


def _ended(run: Run, request: FinishRequest, now: datetime) -> Run:
    try:
        if request.state is RunState.SUCCEEDED:
            return end_attempt(run=run, to=RunState.SUCCEEDED, now=now)
        if request.state is RunState.FAILED:
            return _fail(run, _storable(request.failure), now)
        if request.state in (RunState.CANCELLED, RunState.QUEUED):
            return _give_back(run, now)
    except Conflict as error:
        if error.code == "run_moved":
            raise StaleAttempt from error
        raise
    raise Invalid(
        "an attempt must end as succeeded, failed, cancelled or queued", fields={"state": request.state.value}
    )


def _storable(failure: Failure | None) -> Failure | None:
    """Make a worker's failure storable, since it may quote text from an environment."""
    return None if failure is None else Failure.model_validate(storable(failure.model_dump(mode="json")))


def _fail(run: Run, failure: Failure | None, now: datetime) -> Run:
    if failure is None:
        raise Invalid("a failed run must say why", fields={"failure": "missing"})
    if failure.kind is FailureKind.INFRASTRUCTURE:
        return requeue_run(run=run, failure=failure, now=now)
    return end_attempt(run=run, to=RunState.FAILED, now=now, failure=failure)


def _give_back(run: Run, now: datetime) -> Run:
    """Return the run to the queue because its worker stops: on shutdown, which costs no attempt, or on cancellation."""
    if run.cancel_requested_at is None and run.attempt < MAX_RELEASES:
        bound = run.max_attempts + 1
        Run.objects.filter(pk=run.pk, attempt=run.attempt).update(max_attempts=bound)
        run.max_attempts = bound
    return requeue_run(run=run, failure=RELEASED, now=now, wait=False)
