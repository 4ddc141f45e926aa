"""Cancelling runs."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from envhub.protocol.runs import RunState

from hub.core import clock
from hub.core.errors import Conflict
from hub.core.queue import revoke_on_commit
from hub.runs.models import Run
from hub.runs.services.dispatching import task_ids
from hub.runs.services.finishing import CANCELLED, end_attempt
from hub.runs.transitions import FINAL, HELD


def request_cancel(*, run: Run, now: datetime | None = None) -> Run:
    """Cancel a run and its parts.

    A queued run ends at once. A run that a worker has learns of it by a heartbeat, and the sweeper ends it if it does
    not stop. Its Celery tasks are revoked: a waiting task never begins, and a running one sends that heartbeat now.
    Cancelling again is a no-op. Raises Conflict `run_final` if the run has ended otherwise.
    """
    now = now or clock.now()
    cancelled = _request(run, now)
    for part in Run.objects.filter(parent=run, cancel_requested_at__isnull=True).exclude(state__in=FINAL):
        with suppress(Conflict):  # it has ended in the meantime
            _request(part, now)
    return cancelled


def cancel_if_open(*, run: Run) -> None:
    """Cancel a run, unless it has ended.

    If the caller has locked what transitions of the run lock after it (its environment, its deployment), call it on
    commit: a transition that waits for that lock holds the run.
    """
    try:
        request_cancel(run=run)
    except Conflict as error:
        if error.code != "run_final":
            raise


def _request(run: Run, now: datetime) -> Run:
    for _ in range(3):  # it may be claimed, or returned to the queue, between reading and writing
        run = Run.objects.select_related("owner", "created_by", "worker").get(pk=run.pk)
        if run.state == RunState.CANCELLED:
            return run
        if RunState(run.state).is_final:
            raise Conflict(f"the run has already {run.state}", code="run_final")
        if run.state == RunState.QUEUED:
            try:
                ended = end_attempt(run=run, to=RunState.CANCELLED, now=now, failure=CANCELLED)
            except Conflict:
                continue
            _revoke(run)
            return ended
        if run.cancel_requested_at is not None:
            return run
        held = Run.objects.filter(pk=run.pk, state__in=HELD, attempt=run.attempt)
        if held.update(cancel_requested_at=now) == 1:
            run.cancel_requested_at = now
            _revoke(run)
            return run
    raise Conflict("the run keeps changing state; try again", code="run_moved")


def _revoke(run: Run) -> None:
    if ids := task_ids(run):
        revoke_on_commit(ids)
