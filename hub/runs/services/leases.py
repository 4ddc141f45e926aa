"""What a worker does with a run while it has it: claim, start, heartbeat."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from envhub.protocol.runs import Claim, ExtraGpus, Failure, FailureKind, HeartbeatReply, Progress, RunKind, RunState
from envhub.protocol.training.cluster_need import hosts_left

from hub.accounts.models import Owner
from hub.accounts.quotas import limits_of
from hub.core.database_json import storable
from hub.core.errors import Conflict, HubError, NotAllowed
from hub.core.ids import GivenId
from hub.runs.errors import NotClaimable, StaleAttempt
from hub.runs.kinds import spec_of
from hub.runs.models import Run, Worker
from hub.runs.placing.clusters import cluster_need_of, held_needs, hosts_of, left_of
from hub.runs.placing.gpus import need_of
from hub.runs.queries import claimable_runs
from hub.runs.services.finishing import end_attempt
from hub.runs.tokens import new_run_token, token_digest
from hub.runs.transitions import HELD, move
from hub.runs.usage import cpu_columns, extra_gpu_columns

logger = logging.getLogger(__name__)
UNREADABLE = Failure(
    kind=FailureKind.ENVIRONMENT,
    code="unreadable",
    message="the stored data of this run cannot be read",
    hint="start it again; the hub's log has the details",
)


def lease_end(now: datetime) -> datetime:
    """Return when a lease that is renewed now expires."""
    return now + timedelta(seconds=settings.HUB.lease_seconds)


def claim_run(*, run_id: GivenId, worker: Worker, now: datetime, gpus: Sequence[int] = ()) -> Claim:
    """Lease a waiting run to `worker`, which has set aside GPUs with this much free memory (MB each).

    Raises NotClaimable if another worker was faster, it may not have this run, or the run needs more than those GPUs.
    """
    run = claimable_runs(worker, worker.queues, now=now).filter(pk=run_id).first()
    if run is None or not need_of(run).fits(gpus):
        raise NotClaimable
    token = new_run_token(run.pk, run.attempt + 1)
    try:
        run = _lease(
            run,
            worker,
            attempt=run.attempt + 1,
            token_digest=token_digest(token),
            lease_expires_at=lease_end(now),
            not_before=None,
            progress=None,
            attempt_cpu_seconds=0.0,
            engine_gpus=0,
            extra_gpus=0,
            extra_gpu_seconds=0.0,
        )
    except Conflict as error:
        raise NotClaimable from error
    return Claim(
        run_id=str(run.pk),
        kind=RunKind(run.kind),
        attempt=run.attempt,
        token=token,
        lease_seconds=settings.HUB.lease_seconds,
        owner=run.owner.slug,
        subject=run.subject,
        queued_at=run.created_at,
        traceparent=run.traceparent,
        led_here=run.led_here,
        payload=_payload(run, now),
    )


def _check_cluster(run: Run, worker: Worker) -> None:
    """Raises NotClaimable if the worker's cluster has too little left for a run on several hosts."""
    # So that two children of its pool take turns.
    worker = Worker.objects.select_for_update(of=("self",)).get(pk=worker.pk)
    left = left_of(hosts_of(worker), held_needs([worker]).get(worker.pk, []))
    if hosts_left(cluster_need_of(run), left) is None:
        raise NotClaimable


def _lease(run: Run, worker: Worker, **fields: object) -> Run:
    """Move the run to LEASED. Raises NotClaimable if its owner has as many runs of the kind as allowed."""
    limit = limits_of(run.owner_id).running_of(RunKind(run.kind))
    with transaction.atomic():
        if limit is not None:
            Owner.objects.select_for_update().get(pk=run.owner_id)  # so that two workers take turns to count
            if Run.objects.filter(owner_id=run.owner_id, kind=run.kind, state__in=HELD).count() >= limit:
                raise NotClaimable
        if run.hosts > 1:
            _check_cluster(run, worker)
        return move(run, RunState.LEASED, worker=worker, **fields)


def _payload(run: Run, now: datetime) -> dict[str, object]:
    """Return the kind's payload.

    If it cannot be made (because its model was deleted, say), fail the run with the reason.
    """
    try:
        if not run.created_by.is_active:
            raise NotAllowed("the user who started this run is disabled", code="user_disabled", hint="start it again")
        return spec_of(run.kind).payload(run).model_dump(mode="json")
    except HubError as error:
        logger.info("run %s has no payload: %s", run.pk, error.message)
        failure = Failure(
            kind=FailureKind.ENVIRONMENT, code=error.code, message=error.message, hint=error.hint or "start it again"
        )
        end_attempt(run=run, to=RunState.FAILED, now=now, failure=failure)
        raise NotClaimable from error
    except ValueError as error:  # from pydantic: a row holds values that today's types refuse
        logger.exception("run %s has no payload", run.pk)
        end_attempt(run=run, to=RunState.FAILED, now=now, failure=UNREADABLE)
        raise NotClaimable from error


def start_run(*, run: Run, now: datetime) -> Run:
    """Move the run to RUNNING. Idempotent, so that a worker may repeat it if the response was lost."""
    if run.state == RunState.RUNNING:
        return run
    try:
        return move(run, RunState.RUNNING, started_at=now, lease_expires_at=lease_end(now))
    except Conflict as error:
        raise StaleAttempt from error


def heartbeat_run(
    *,
    run: Run,
    progress: Progress | None,
    now: datetime,
    cpu_seconds: float | None = None,
    engine_gpus: int | None = None,
    extra_gpus: ExtraGpus | None = None,
) -> HeartbeatReply:
    """Renew the lease; note the progress, the attempt's CPU time so far, and GPUs beyond those of its placement.

    Raises StaleAttempt when the lease has gone to somebody else.
    """
    held = Run.objects.filter(pk=run.pk, attempt=run.attempt, state__in=HELD)
    changes: dict[str, object] = {"lease_expires_at": lease_end(now), **cpu_columns(cpu_seconds)}
    if engine_gpus is not None:
        changes["engine_gpus"] = engine_gpus
    if extra_gpus is not None:
        changes |= extra_gpu_columns(extra_gpus.held, extra_gpus.seconds)
    if progress is not None:
        changes["progress"] = storable(progress.model_dump(mode="json"))
    if held.update(**changes) != 1:
        raise StaleAttempt
    cancel = Run.objects.filter(pk=run.pk, cancel_requested_at__isnull=False).exists()
    return HeartbeatReply(cancel=cancel, lease_seconds=settings.HUB.lease_seconds)
