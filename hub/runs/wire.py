"""Converts runs and workers to wire types, with the reasons why queued runs wait."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.conf import settings
from envhub.protocol.placing.gpus import GpuUse
from envhub.protocol.runs import (
    Failure,
    LogPage,
    Progress,
    RunKind,
    RunState,
    RunView,
    WorkerDetail,
    WorkerFacts,
    WorkerView,
)

from hub.core import clock
from hub.runs.models import Run, Worker
from hub.runs.placing.waiting import waiting_reasons
from hub.runs.queries import LogText, held_runs, silent_after
from hub.runs.transitions import HELD
from hub.runs.usage import gpu_seconds_of, gpus_of


def run_view(run: Run, waiting_for: str | None) -> RunView:
    """Return one run; its owner and created_by must have been selected with it."""
    return RunView(
        id=str(run.pk),
        kind=RunKind(run.kind),
        state=RunState(run.state),
        owner=run.owner.slug,
        created_by=run.created_by.username,
        subject=run.subject,
        subject_url=run.subject_url,
        queue=run.queue,
        attempt=run.attempt,
        waiting_for=waiting_for,
        progress=None if run.progress is None else Progress.model_validate(run.progress),
        failure=None if run.failure is None else Failure.model_validate(run.failure),
        cancel_requested=run.cancel_requested_at is not None,
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        cpu_seconds=run.cpu_seconds,
        gpus=gpus_of(run) + (run.extra_gpus if run.state in HELD else 0),
        gpu_seconds=_gpu_seconds(run),
        trace_id=run.trace_id,
        trace_url=trace_url(run.trace_id),
    )


def _gpu_seconds(run: Run) -> float:
    if run.started_at is None:
        return 0.0
    return gpu_seconds_of(run, run.started_at, run.finished_at or clock.now())


def trace_url(trace_id: str | None) -> str | None:
    """Return where the operator's users can look at a trace, if there is such a place."""
    pattern: str = settings.HUB.trace_url
    return pattern.replace("{trace_id}", trace_id) if pattern and trace_id else None


def run_views(runs: Sequence[Run], *, now: datetime) -> dict[UUID, RunView]:
    """Return each run's view by id, in the given order, with two queries for all reasons together."""
    reasons = waiting_reasons(runs, now=now)
    return {run.pk: run_view(run, reasons.get(run.pk)) for run in runs}


def worker_view(worker: Worker, *, now: datetime) -> WorkerView:
    """Return a row of `queries.all_workers` as a wire type."""
    revoked = worker.token.revoked_at is not None
    return WorkerView(
        id=str(worker.pk),
        name=worker.name,
        hostname=worker.hostname,
        online=not revoked and worker.seen_at > now - silent_after(),
        revoked=revoked,
        queues=tuple(worker.queues),
        closed=tuple(sorted(lane.queue for lane in worker.lanes.all() if lane.room is None)),
        drained_at=worker.drained_at,
        free_gpus=tuple(worker.free_gpus),
        busy_gpus=tuple(worker.busy_gpus),
        gpu_use=tuple(GpuUse.model_validate(one) for one in worker.gpu_use),
        gpu_history=tuple((at, percent) for at, percent in worker.gpu_history),
        slots=worker.slots,
        sandbox=worker.sandbox,
        facts=WorkerFacts.model_validate(worker.facts),
        token=worker.token.name,
        owners=tuple(sorted(owner.slug for owner in worker.token.owners.all())),
        running=worker.running,  # type: ignore[attr-defined]
        joined_at=worker.joined_at,
        seen_at=worker.seen_at,
    )


def worker_detail_view(worker: Worker, *, now: datetime) -> WorkerDetail:
    """Return a worker with the runs that it has."""
    runs = held_runs([worker])[worker.pk]
    return WorkerDetail(**dict(worker_view(worker, now=now)), runs=tuple(run_view(run, None) for run in runs))


def log_page(run: Run, attempt: int, offset: int, log: LogText) -> LogPage:
    """Return part of an attempt's log; `done` if nothing will follow."""
    over = RunState(run.state).is_final or attempt < run.attempt
    return LogPage(attempt=attempt, offset=offset, next_offset=log.next_offset, text=log.text, done=over and log.at_end)
