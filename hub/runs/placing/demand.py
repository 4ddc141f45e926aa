"""Computes for autoscalers how many workers of a pool would be useful now; the workers of a pool share a worker token.

Runs count whether or not a worker is online. For each queue, only the next MOST_LOOKED_AT waiting runs are considered,
so that the cost is bounded; a pool that needs more workers than that grows in several steps.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypedDict

from django.db.models import Case, Count, Q, When
from envhub.protocol.placing.gpus import GpuNeed
from envhub.protocol.runs import QueueDemand, RunState, WorkersWanted

from hub.runs.engines import gpu_room_mb
from hub.runs.models import Run, Worker, WorkerToken
from hub.runs.placing.fairness import held_now, next_runs
from hub.runs.placing.gpus import need_of
from hub.runs.queries import runs_of_token, silent_after
from hub.runs.transitions import HELD, OPEN

if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations

MOST_LOOKED_AT = 200  # waiting runs considered per queue
# A run with a longer back-off (a day is possible for builds) does not keep a worker waiting.
SOON = timedelta(minutes=1)


class Parts(TypedDict):
    """The annotation that `_wishing_for_parts` adds to a run."""

    open_parts: int


def workers_wanted(
    token: WorkerToken, slots: Mapping[str, int], *, gpus: Sequence[int] = (), now: datetime
) -> WorkersWanted:
    """Compute the demand. slots: queue -> runs at once of one worker; gpus: the memory of each of its GPUs in MB."""
    queues = []
    for queue, at_once in sorted(slots.items()):
        held = _held(token, queue)
        waiting = _waiting(token, queue, gpus, now)
        workers = workers_for([*held, *waiting], at_once, len(gpus))
        queues.append(QueueDemand(queue=queue, waiting=len(waiting), held=len(held), workers=workers))
    kept = _kept(token, now)
    return WorkersWanted(workers=max([kept, *(demand.workers for demand in queues)]), kept=kept, queues=tuple(queues))


def workers_for(needed: Iterable[int], slots: int, gpus: int) -> int:
    """Return how many workers can run these at once (each run given by its GPUs), by first fit in decreasing size."""
    free: list[list[int]] = []  # free slots and GPUs of each worker
    sizes = Counter(min(count, gpus) for count in needed)
    for size in sorted(sizes, reverse=True):
        left = sizes[size]
        for room in free:
            taken = min(left, room[0], room[1] // size if size else left)
            room[0] -= taken
            room[1] -= taken * size
            left -= taken
        most = min(slots, gpus // size) if size else slots
        while left:
            taken = min(left, most)
            free.append([slots - taken, gpus - taken * size])
            left -= taken
    return len(free)


def _held(token: WorkerToken, queue: str) -> list[int]:
    """Return the GPUs of each run of the queue that the pool's workers have; GPUs of clusters count as 0."""
    rows = Run.objects.filter(worker__token=token, queue=queue, state__in=HELD).order_by()
    own = Case(When(hosts=1, then="gpus"), default=0)
    return [gpus for gpus, count in rows.values_list(own).annotate(Count("pk")) for _ in range(count)]


def _waiting(token: WorkerToken, queue: str, gpus: Sequence[int], now: datetime) -> list[int]:
    """Return the GPUs of each run that one more worker of the pool could take: its owner may run it, and it fits.

    Runs on several hosts do not count, because a new worker brings no cluster.
    """
    due = Q(not_before__isnull=True) | Q(not_before__lte=now + SOON)
    runs = runs_of_token(token, [queue]).filter(due, state=RunState.QUEUED.value, hosts=1, gpus__lte=len(gpus))
    held = held_now()
    running = held.by_kind
    found = []
    for run in next_runs(runs, queue, most=MOST_LOOKED_AT):
        if held.is_full(run.owner_id, run.kind):
            continue
        if fits(need_of(run), gpus) and serves(run, gpus):
            running[run.owner_id, run.kind] += 1
            found.append(run.gpus)
    for run in _wishing_for_parts(token, queue, gpus):
        limit = held.limit(run.owner_id, run.kind)
        missing = max(0, run.parts_wanted - run.open_parts)
        if limit is not None:
            missing = max(0, min(missing, limit - running[run.owner_id, run.kind]))
        running[run.owner_id, run.kind] += missing
        found += [run.gpus] * missing
    return found


def _wishing_for_parts(token: WorkerToken, queue: str, gpus: Sequence[int]) -> Iterable[WithAnnotations[Run, Parts]]:
    """Return the pool's runs that have work for more parts than they have."""
    held = runs_of_token(token, [queue]).filter(worker__token=token, state=RunState.RUNNING.value)
    counted = held.filter(parts_wanted__gt=0).annotate(open_parts=Count("parts", filter=Q(parts__state__in=OPEN)))
    return [run for run in counted.order_by("pk")[:MOST_LOOKED_AT] if fits(need_of(run), gpus)]


def fits(need: GpuNeed, gpus: Sequence[int]) -> bool:
    """Return whether one worker of the pool could ever take the run. GPUs of unknown memory (0) fit every run."""
    return need.fits(memory or need.memory_mb for memory in gpus)


def serves(run: Run, gpus: Sequence[int]) -> bool:
    """Return whether a new worker of the pool could serve the run's model, assuming that GPUs imply the engine."""
    return not run.engine or (bool(gpus) and (not all(gpus) or run.weights_mb <= gpu_room_mb(gpus)))


def _kept(token: WorkerToken, now: datetime) -> int:
    """Return how many workers must stay so that scaling down ends none that has runs.

    Scaling down ends the pod with the highest number first (Kubernetes' StatefulSet: `NAME-3`); workers whose hostnames
    have no number are simply counted.
    """
    online = Worker.objects.filter(token=token, seen_at__gt=now - silent_after())
    hosts = set(online.filter(runs__state__in=HELD).values_list("hostname", flat=True))
    numbers = [int(found[1]) for host in hosts if (found := re.search(r"-(\d{1,6})$", host))]
    return max([len(hosts), *(number + 1 for number in numbers)])
