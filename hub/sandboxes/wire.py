"""Sandboxes as wire types."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from envhub.protocol.runs import Failure, Progress
from envhub.protocol.sandboxes.sandboxes import PortView, SandboxState, SandboxView

from hub.runs.placing.waiting import waiting_reasons
from hub.sandboxes.models import Sandbox, SandboxPort


def port_view(row: SandboxPort) -> PortView:
    """Without its address."""
    return PortView(
        id=str(row.pk), port=row.number, name=row.name, created_at=row.created_at, expires_at=row.expires_at
    )


def sandbox_views(rows: Sequence[Sandbox], *, now: datetime) -> list[SandboxView]:
    """Rows of hub.sandboxes.queries, with the reasons why pending ones wait."""
    reasons = waiting_reasons([row.run for row in rows], now=now)
    return [_view(row, reasons) for row in rows]


def sandbox_view(row: Sandbox, *, now: datetime) -> SandboxView:
    """One of them."""
    return sandbox_views([row], now=now)[0]


def _view(row: Sandbox, reasons: dict[UUID, str]) -> SandboxView:
    run, state = row.run, SandboxState(row.state)
    running = state is SandboxState.RUNNING and row.started_at is not None
    return SandboxView(
        id=str(row.pk),
        owner=row.owner.slug,
        name=row.name,
        image=row.image,
        state=state,
        waiting_for=_waiting_for(row, reasons) if state is SandboxState.PENDING else None,
        reason=row.reason,
        failure=Failure.model_validate(run.failure) if run.failure and state is SandboxState.FAILED else None,
        cpus=row.cpus,
        memory_mb=row.memory_mb,
        disk_mb=row.disk_mb,
        timeout_s=row.timeout_s,
        idle_s=row.idle_s,
        variables=tuple(row.variables),
        start_command=tuple(row.start_command),
        allow_hosts=tuple(row.allow_hosts),
        models=tuple(row.model_names),
        siblings=row.siblings,
        labels=tuple(label.text for label in row.label_rows.all()),
        use=_use(row) if running else "",
        run_id=str(run.pk),
        worker=run.worker.name if run.worker else "",
        created_by=row.created_by.username,
        created_at=row.created_at,
        started_at=row.started_at,
        ends_at=row.started_at + timedelta(seconds=row.timeout_s) if running and row.started_at else None,
        ended_at=row.ended_at,
    )


def _use(row: Sandbox) -> str:
    """As its worker says with each heartbeat."""
    if row.run.progress is None:
        return ""
    use = Progress.model_validate(row.run.progress)
    return ", ".join(part for part in (f"{use.done} of {use.total} {use.unit}", use.note) if part)


def _waiting_for(row: Sandbox, reasons: dict[UUID, str]) -> str:
    return reasons.get(row.run.pk) or "the worker gets it ready"
