"""Worker tokens, and workers that join with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from envhub.protocol.placing.gpus import GpuUse
from envhub.protocol.runs import EngineCounts, JoinRequest, RunState

from hub.accounts.models import Owner
from hub.core.broker_users import dismiss
from hub.core.errors import NotAllowed
from hub.runs.gpu_use import continued
from hub.runs.models import Lane, Run, Worker, WorkerToken
from hub.runs.tokens import new_worker_token, token_digest

SEEN_IS_NOTED_EVERY = timedelta(seconds=5)


def create_worker_token(
    *, name: str, queues: Iterable[str] = (), owners: Iterable[Owner] = ()
) -> tuple[str, WorkerToken]:
    """Create a worker token; return its secret (never stored) and its row. No queues or owners means all of them."""
    secret = new_worker_token()
    with transaction.atomic():
        token = WorkerToken.objects.create(name=name, digest=token_digest(secret), queues=list(queues))
        token.owners.set(owners)
    return secret, token


def revoke_worker_token(*, token: WorkerToken, now: datetime) -> WorkerToken:
    """Revoke a token and cut off all its workers at once. Their runs return to the queue when the leases expire."""
    if token.revoked_at is None:
        token.revoked_at = now
        token.save(update_fields=["revoked_at"])
        workers = [str(key) for key in token.workers.values_list("pk", flat=True)]
        transaction.on_commit(lambda: dismiss(workers))
    return token


def drain_worker(*, worker: Worker, drained: bool, now: datetime) -> Worker:
    """Send it nothing new while it finishes what it holds, also after its restart; or have it take runs again, with its
    next beat. What is on its way to it goes to another."""
    with transaction.atomic():
        worker.drained_at = (worker.drained_at or now) if drained else None
        Worker.objects.filter(pk=worker.pk).update(drained_at=worker.drained_at)
        if drained:
            Lane.objects.filter(worker=worker).update(room=None)
            Run.objects.filter(state=RunState.QUEUED.value, sent_to=worker).update(sent_until=None)
    return worker


def join_worker(*, token: WorkerToken, request: JoinRequest, now: datetime) -> Worker:
    """Create or update the worker's row: one per token, name and host, so that joining again is safe.

    Runs sent to the worker before are no longer expected to arrive, and it has no room until it reports some. Raises
    NotAllowed.
    """
    foreign = sorted(set(request.queues) - set(token.queues)) if token.queues else []
    if foreign:
        raise NotAllowed(
            f"this worker token does not serve: {', '.join(foreign)}",
            code="queue_not_allowed",
            hint="create a token with these queues: hub worker token",
        )
    worker, _ = Worker.objects.update_or_create(
        token=token,
        name=request.name[:100],
        hostname=request.hostname[:255],
        defaults={
            "queues": list(request.queues),
            "slots": request.slots,
            "sandbox": request.sandbox[:16],
            "facts": request.facts.model_dump(mode="json"),
            "seen_at": now,
        },
    )
    Lane.objects.filter(worker=worker).update(room=None if worker.drained_at else 0)
    Run.objects.filter(state=RunState.QUEUED.value, sent_to=worker).update(sent_until=None)
    return worker


def note_worker(
    *,
    worker: Worker,
    now: datetime,
    free_gpus: Sequence[int] | None = None,
    busy_gpus: Sequence[int] | None = None,
    engines: EngineCounts | None = None,
    gpu_use: Sequence[GpuUse] | None = None,
) -> None:
    """Record, at most every few seconds, that the worker is online; record its GPUs, their use and its engines if they
    have changed."""
    told: dict[str, Sequence[object] | None] = {"free_gpus": free_gpus, "busy_gpus": busy_gpus}
    if gpu_use is not None:
        told["gpu_use"] = [one.model_dump(mode="json") for one in gpu_use]
        told["gpu_history"] = continued(worker.gpu_history, gpu_use, now)
    fields: dict[str, object] = {
        name: list(sizes) for name, sizes in told.items() if sizes is not None and list(sizes) != getattr(worker, name)
    }
    if engines is not None and engines != EngineCounts.model_validate(worker.engines):
        fields["engines"] = engines.model_dump()
    if now - worker.seen_at >= SEEN_IS_NOTED_EVERY:
        fields["seen_at"] = now
    if fields:
        Worker.objects.filter(pk=worker.pk).update(**fields)
        for name, value in fields.items():
            setattr(worker, name, value)
