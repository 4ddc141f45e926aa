"""Queueing runs."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import transaction
from envhub.protocol.placing.gpus import GpuNeed
from envhub.protocol.runs import RunKind, RunState

from hub.accounts.models import Owner, User
from hub.core.errors import Conflict
from hub.core.requests.traces import trace_of_new_run
from hub.runs.engines import NO_ENGINE, EngineNeed
from hub.runs.kinds import spec_of
from hub.runs.models import Run
from hub.runs.services.dispatching import dispatch_on_commit
from hub.runs.usage import check_usage


def create_run(
    *,
    kind: RunKind,
    owner: Owner,
    created_by: User,
    subject: str,
    subject_url: str,
    queue: str | None = None,
    gpus: GpuNeed | None = None,
    not_before: datetime | None = None,
    limited: bool = True,
    parent: Run | None = None,
    after: Run | None = None,
    ability: str = "",
    engine: EngineNeed = NO_ENGINE,
) -> Run:
    """Queue a run; it is sent to a worker with room on commit. Create the kind's own row in the same transaction.

    not_before: no worker is given the run earlier.
    limited: the run counts against what its owner may have waiting. False for runs that the hub starts by itself, when
    there is nobody to tell of a refusal.
    parent: the run that this one helps and ends with, in the same trace.
    after: the run that this one continues; its trace is linked.
    ability: the run waits for a worker with this one of envhub.protocol.placing.abilities.
    engine: the run waits for a worker that can serve its models.
    Raises Conflict (`too_many_queued`, `usage_limit`) if the owner has as many runs waiting, or has used as much, as
    the operator allows.
    """
    spec, need = spec_of(kind), gpus or GpuNeed()
    with transaction.atomic():
        if limited:
            _check_queued(owner)
            check_usage(owner=owner, kind=kind, wants_gpus=bool(need.count) or engine.engine == "vllm")
        run = Run.objects.create(
            kind=kind.value,
            queue=queue or spec.queue,
            owner=owner,
            created_by=created_by,
            subject=subject[:300],
            subject_url=subject_url[:500],
            max_attempts=settings.HUB.max_attempts,
            gpus=need.count,
            gpu_memory_mb=need.memory_mb,
            hosts=need.hosts,
            gpus_by_host=list(need.by_host),
            not_before=not_before,
            parent=parent,
            ability=ability,
            engine=engine.engine,
            weights_mb=engine.weights_mb,
            traceparent=str(trace_of_new_run()) if parent is None else parent.traceparent,
            led_here=after.traceparent if after is not None else "",
        )
        if not_before is None:
            dispatch_on_commit(run.queue)
    return run


def start_now(*, run: Run) -> bool:
    """Let a queued run start without waiting for its `not_before`; return False if it has none."""
    with transaction.atomic():
        waiting = Run.objects.filter(pk=run.pk, state=RunState.QUEUED.value, not_before__isnull=False)
        if not waiting.update(not_before=None):
            return False
        dispatch_on_commit(run.queue)
    return True


def _check_queued(owner: Owner) -> None:
    most = settings.HUB.owner_queued
    if most and Run.objects.filter(owner=owner, state=RunState.QUEUED.value).order_by()[:most].count() >= most:
        raise Conflict(
            f"{owner.slug} already has {most} runs waiting, the most that an owner may have",
            code="too_many_queued",
            hint="wait until some have ended, or cancel some: hub run cancel",
        )
