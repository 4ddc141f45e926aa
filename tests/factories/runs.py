"""Runs, workers and their tokens."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from envhub.protocol.placing.abilities import ABILITIES
from envhub.protocol.runs import JoinRequest, RunKind, RunState, WorkerFacts

from hub.accounts.models import Owner, User
from hub.runs.models import Run, Worker, WorkerToken
from hub.runs.services import create_worker_token, join_worker
from hub.runs.tokens import new_run_token, token_digest
from tests.factories.accounts import make_user

_numbers = itertools.count(1)


def make_run(
    *,
    owner: Owner | None = None,
    created_by: User | None = None,
    kind: RunKind = RunKind.EVAL,
    state: RunState = RunState.QUEUED,
    **fields: Any,
) -> Run:
    """A bare run in any state, without the detail that its kind would hang on it."""
    created_by = created_by or (owner.user if owner and owner.user else make_user())
    fields.setdefault("queue", kind.value)
    fields.setdefault("subject", "somebody/something@0.1.0")
    return Run.objects.create(
        owner=owner or created_by.owner, created_by=created_by, kind=kind.value, state=state.value, **fields
    )


def make_worker_token(*, queues: tuple[str, ...] = (), owners: tuple[Owner, ...] = ()) -> tuple[str, WorkerToken]:
    """The secret and the row of a worker token."""
    return create_worker_token(name=f"token-{next(_numbers)}", queues=queues, owners=owners)


def make_worker(
    token: WorkerToken | None = None,
    *,
    queues: tuple[str, ...] = ("build", "eval"),
    now: datetime | None = None,
    abilities: tuple[str, ...] = ABILITIES,
    **facts: Any,
) -> Worker:
    """A worker that has just joined. `facts`: more of its WorkerFacts."""
    token = token or make_worker_token()[1]
    request = JoinRequest(
        name=f"worker-{next(_numbers)}",
        hostname="host",
        queues=queues,
        slots=dict.fromkeys(queues, 1),
        sandbox="bwrap",
        facts=WorkerFacts(abilities=abilities, **facts),
    )
    return join_worker(token=token, request=request, now=now or timezone.now())


def hold_run(run: Run, *, worker: Worker | None = None, state: RunState = RunState.RUNNING) -> str:
    """Put a run into a worker's hands without claiming it over HTTP; the attempt's run token."""
    token = new_run_token(run.pk, run.attempt + 1)
    now = timezone.now()
    Run.objects.filter(pk=run.pk).update(
        state=state.value,
        attempt=run.attempt + 1,
        worker=worker or make_worker(),
        token_digest=token_digest(token),
        lease_expires_at=now + timedelta(seconds=30),
        started_at=now if state is RunState.RUNNING else None,
        attempt_cpu_seconds=0.0,
        extra_gpus=0,
        extra_gpu_seconds=0.0,
    )
    run.refresh_from_db()
    return token
