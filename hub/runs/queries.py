"""Reads of runs: what a user sees, what a worker may claim, logs."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from django.conf import settings
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from envhub.protocol.runs import RunKind, RunState, WorkerFacts

from hub.accounts.models import User
from hub.accounts.queries import Caller, owner_ids, visible_owner_ids
from hub.core.errors import NotFound
from hub.core.ids import GivenId, find_by_id
from hub.runs.engines import servable, why_unserved
from hub.runs.models import Run, RunLogPiece, Worker, WorkerToken
from hub.runs.transitions import HELD, OPEN

MOST_HELD = 1000  # runs shown
LOG_PAGE = 256 * 1024  # characters


def visible_runs(user: Caller) -> QuerySet[Run]:
    """Return the runs of the owners that `user` belongs to."""
    runs = Run.objects.select_related("owner", "created_by", "worker")
    if isinstance(user, User) and user.is_administrator:
        return runs
    # Ids instead of a subquery: the planner then knows how few owners there are and uses their index.
    return runs.filter(owner_id__in=list(visible_owner_ids(user)))


def failed_runs(user: Caller, since: datetime) -> QuerySet[Run]:
    """Return the runs that failed since a moment, however long ago they began; the latest failure first."""
    rows = visible_runs(user).filter(state=RunState.FAILED.value, parent__isnull=True, finished_at__gte=since)
    return rows.order_by("-finished_at", "-pk")


def unfinished_runs(user: Caller) -> QuerySet[Run]:
    """Return the runs that wait or run, newest first."""
    return visible_runs(user).filter(state__in=OPEN, parent__isnull=True).order_by("-pk")


def get_run(user: Caller, run_id: GivenId) -> Run:
    """Return one run. Raises NotFound, AmbiguousId."""
    run = find_by_id(visible_runs(user), run_id, lambda row: f"{row.kind}, {row.subject}, {row.state}")
    if run is None:
        raise NotFound("the run does not exist")
    return run


def filter_runs(
    runs: QuerySet[Run], *, kind: RunKind | None = None, state: RunState | None = None, owner: str = ""
) -> QuerySet[Run]:
    """Narrow runs by the list's query parameters. Parts are left out: they are shown with their parent."""
    runs = runs.filter(parent__isnull=True)
    if kind is not None:
        runs = runs.filter(kind=kind.value)
    if state is not None:
        runs = runs.filter(state=state.value)
    if owner:
        runs = runs.filter(owner_id__in=owner_ids(owner))
    return runs


def claimable_runs(worker: Worker, queues: Iterable[str], *, now: datetime) -> QuerySet[Run]:
    """Return what `worker` may claim now on `queues`: within its token's queues and owners, and its abilities."""
    due = Q(not_before__isnull=True) | Q(not_before__lte=now)
    if worker.drained_at is not None:
        return Run.objects.none()
    runs = runs_of_token(worker.token, set(queues) & set(worker.queues))
    able = Q(servable(worker), ability__in=["", *abilities_of(worker)])
    return runs.filter(due, able, state=RunState.QUEUED.value)


def abilities_of(worker: Worker) -> tuple[str, ...]:
    """Return the worker's abilities (envhub.protocol.placing.abilities); older releases report none."""
    return WorkerFacts.model_validate(worker.facts).abilities


def is_able(worker: Worker, run: Run) -> bool:
    """Return whether the worker has the ability for the run and can serve its models."""
    return run.ability in ("", *abilities_of(worker)) and not (run.engine and why_unserved(run, [worker]))


def runs_of_token(token: WorkerToken, queues: Iterable[str]) -> QuerySet[Run]:
    """Return the runs of `queues`, in any state, that a worker with this token may have, by its queues and owners."""
    allowed = set(queues) & set(token.queues) if token.queues else set(queues)
    runs = Run.objects.filter(queue__in=sorted(allowed))
    owners = list(token.owners.values_list("pk", flat=True))
    return runs.filter(owner_id__in=owners) if owners else runs


def is_cut_off(token: WorkerToken) -> bool:
    """Return whether all owners that a worker token serves are disabled users."""
    owners = list(token.owners.values_list("user__is_active", flat=True))  # None: a team
    return bool(owners) and all(active is False for active in owners)


def all_workers() -> QuerySet[Worker]:
    """Return all workers that ever joined, with token, the token's owners, lanes, and the number of runs each has."""
    held = Run.objects.filter(state__in=[state.value for state in HELD], worker=OuterRef("pk"))
    running = Coalesce(Subquery(held.order_by().values("worker").values(count=Count("pk"))), 0)
    workers = Worker.objects.select_related("token").prefetch_related("token__owners", "lanes")
    return workers.annotate(running=running)


class WorkerState(StrEnum):
    """What a worker is to who looks after it. One that is drained is online or away, too."""

    ONLINE = "online"
    DRAINED = "drained"
    AWAY = "away"
    REVOKED = "revoked"


def workers_in(state: WorkerState, *, now: datetime) -> Q:
    """For a filter of workers."""
    there, revoked = Q(seen_at__gt=now - silent_after()), Q(token__revoked_at__isnull=False)
    return {
        WorkerState.ONLINE: there & ~revoked,
        WorkerState.DRAINED: Q(drained_at__isnull=False) & ~revoked,
        WorkerState.AWAY: ~there & ~revoked,
        WorkerState.REVOKED: revoked,
    }[state]


def count_workers(*, now: datetime) -> dict[WorkerState, int]:
    """How many are in each state, where any are."""
    counts = {state.value: Count("pk", filter=workers_in(state, now=now)) for state in WorkerState}
    found = Worker.objects.aggregate(**counts)
    return {state: found[state.value] for state in WorkerState if found[state.value]}


def held_runs(workers: Iterable[Worker]) -> dict[uuid.UUID, list[Run]]:
    """Return the runs that each of the workers has, oldest first."""
    found: dict[uuid.UUID, list[Run]] = {worker.pk: [] for worker in workers}
    rows = Run.objects.filter(worker__in=list(found), state__in=[state.value for state in HELD])
    rows = rows.select_related("owner", "created_by", "sandboxes_inside").defer("sandboxes_inside__items")
    for run in rows.order_by("pk")[:MOST_HELD]:
        if run.worker_id is not None:
            found[run.worker_id].append(run)
    return found


def find_worker(worker_id: GivenId) -> Worker:
    """Return a worker for administrators, as in `all_workers`. Raises NotFound, AmbiguousId."""
    worker = find_by_id(all_workers(), worker_id, str)
    if worker is None:
        raise NotFound("the worker does not exist")
    return worker


def silent_after() -> timedelta:
    """Return how long a worker may be silent before it counts as offline."""
    return timedelta(seconds=max(15.0, 5 * settings.HUB.worker_beat_seconds))


def get_worker(token_id: uuid.UUID, worker_id: str | uuid.UUID) -> Worker:
    """Return a worker that joined with this token. Raises NotFound."""
    worker = Worker.objects.select_related("token").filter(pk=worker_id, token_id=token_id).first()
    if worker is None:
        raise NotFound("this worker is not registered", code="worker_unknown", hint="join again")
    return worker


def log_end(run_id: uuid.UUID, attempt: int) -> int:
    """Return the length of an attempt's log in characters."""
    last = RunLogPiece.objects.filter(run_id=run_id, attempt=attempt).order_by("-offset").first()
    return 0 if last is None else last.offset + len(last.text)


class LogText(NamedTuple):
    """Part of a log, the offset after it, and whether that is the end."""

    text: str
    next_offset: int
    at_end: bool


def read_log(run_id: uuid.UUID, attempt: int, offset: int) -> LogText:
    """Read the attempt's log from `offset` on, at most LOG_PAGE characters (rounded up to a piece)."""
    pieces = RunLogPiece.objects.filter(run_id=run_id, attempt=attempt)
    first = pieces.filter(offset__lte=offset).order_by("-offset").first()
    texts: list[str] = []
    end, size, at_end = offset, 0, True
    for piece in pieces.filter(offset__gte=first.offset if first else 0).order_by("offset").iterator(chunk_size=50):
        if size >= LOG_PAGE:
            at_end = False
            break
        fresh = piece.text[max(0, offset - piece.offset) :]
        texts.append(fresh)
        size += len(fresh)
        end = max(end, piece.offset + len(piece.text))
    return LogText("".join(texts), end, at_end)
