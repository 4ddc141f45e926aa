"""Explains why a queued run waits: back-off, no worker, old workers, no engine for its model, closed queues, a limit,
too few GPUs, runs ahead, no slot; or that it is about to begin.

All queries are bounded, so any page may call it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from django.db.models import Sum
from envhub.protocol.placing.abilities import PACK_SOURCE, REPLAY, REPLAY_TRAINING
from envhub.protocol.placing.gpus import GpuNeed, in_words
from envhub.protocol.runs import RunKind, RunState, WorkerFacts

from hub.runs.engines import why_unserved
from hub.runs.models import Run, Worker
from hub.runs.placing.cluster_waiting import cluster_room
from hub.runs.placing.clusters import held_needs
from hub.runs.placing.fairness import Held, held_now, in_fair_order
from hub.runs.placing.gpus import need_of
from hub.runs.placing.pace import duration_in_words, seconds_of, until_start
from hub.runs.queries import abilities_of, silent_after
from hub.runs.transitions import HELD

MOST_COUNTED = 1000  # runs ahead
_PLURAL = {
    RunKind.BUILD: "builds",
    RunKind.EVAL: "evaluations",
    RunKind.TRAIN: "training runs",
    RunKind.SERVE: "models",
    RunKind.SANDBOX: "sandboxes",
    RunKind.IMAGE: "images",
}
_ABLE_TO = {
    PACK_SOURCE: "build a package from an uploaded folder",
    REPLAY: "replay rollouts",
    REPLAY_TRAINING: "replay rollouts of training runs",
}


class Cause(StrEnum):
    """Why a run waits, without its numbers, so that it can be counted."""

    BACK_OFF = "back_off"
    NO_WORKER = "no_worker"
    OLD_WORKERS = "old_workers"  # the online workers' releases do not support this
    NO_ENGINE = "no_engine"  # no online worker can serve the run's model
    CLOSED = "closed"  # the online workers take nothing from the queue
    OWNER_LIMIT = "owner_limit"
    TOO_FEW_GPUS = "too_few_gpus"  # on every online worker
    NO_CLUSTER = "no_cluster"  # with enough hosts or GPUs
    GPUS_BUSY = "gpus_busy"
    NO_SLOT = "no_slot"
    COMING = "coming"  # the run is not held up: a worker with room has been told, or will be within moments


class Reason(NamedTuple):
    """A cause, and its explanation for people."""

    cause: Cause
    words: str


class _Line(NamedTuple):
    """The waiting runs of one queue, as far as they are counted, with the number of runs ahead of each."""

    ahead: dict[UUID, int]
    held: Held
    seconds: dict[str, float]  # average duration by kind


class _Serving(NamedTuple):
    """The online workers that can take a run, summed up."""

    workers: Sequence[Worker]
    slots: int
    room: int  # how many more runs of its queue they take now


class _Fleet:
    """The online workers. Which of them serve a run is found once for all runs with the same requirements."""

    def __init__(self, now: datetime) -> None:
        # Read each worker's owners once, not once per run: with two hundred workers, that took half a second per page.
        self.workers = [(worker, {owner.pk for owner in worker.token.owners.all()}) for worker in online_workers(now)]
        self._known: dict[tuple[object, ...], _Serving | Reason] = {}
        self._gpus: dict[UUID, list[int]] = {}

    def serving(self, run: Run) -> _Serving | Reason:
        """Return the workers that can take the run, or why none can."""
        key = (run.kind, run.queue, run.owner_id, run.ability, run.engine, run.weights_mb)
        if key not in self._known:
            self._known[key] = _serving(run, self.workers)
        return self._known[key]

    def gpus(self, worker: Worker) -> list[int]:
        """Return the memory of each of a worker's GPUs in MB."""
        if worker.pk not in self._gpus:
            self._gpus[worker.pk] = gpus_of(worker)
        return self._gpus[worker.pk]


class _Busy(NamedTuple):
    """What runs hold: GPUs of each worker, and of each worker's cluster."""

    gpus: Mapping[UUID | None, int]
    clusters: Mapping[UUID, Sequence[GpuNeed]]


def online_workers(now: datetime) -> list[Worker]:
    """The workers that have been heard of lately, with their tokens, those tokens' owners, and `told`: of each of their
    queues how many more runs they take. It is read once, not for each run that waits."""
    workers = Worker.objects.filter(seen_at__gt=now - silent_after(), token__revoked_at__isnull=True)
    workers = workers.select_related("token").prefetch_related("token__owners", "lanes")
    found = list(workers.order_by("-seen_at")[:500])
    for worker in found:
        worker.told = {lane.queue: lane.room for lane in worker.lanes.all()}  # type: ignore[attr-defined]
    return found


def serves(worker: Worker, owners: set[UUID], run: Run) -> bool:
    """Return whether the worker may take this run, by its queues and its token's queues and owners (none: all)."""
    token = worker.token
    queue_fits = run.queue in worker.queues and (not token.queues or run.queue in token.queues)
    return queue_fits and (not owners or run.owner_id in owners)


def waiting_reasons(runs: Iterable[Run], *, now: datetime) -> dict[UUID, str]:
    """Return the reason for each queued run among `runs`, in words."""
    return {key: reason.words for key, reason in reasons_of(runs, now=now).items()}


def reasons_of(runs: Iterable[Run], *, now: datetime) -> dict[UUID, Reason]:
    """Return the reason for each queued run among `runs`, whose owners must be loaded."""
    queued = [run for run in runs if run.state == RunState.QUEUED]
    if not queued:
        return {}
    fleet = _Fleet(now)
    running = held_now()
    seconds = seconds_of({run.kind for run in queued})
    lines = {queue: _line(queue, queued, running, seconds, now) for queue in sorted({run.queue for run in queued})}
    held = _Busy(
        held_gpus() if any(run.gpus for run in queued) else {},
        held_needs(worker for worker, _ in fleet.workers) if any(run.hosts > 1 for run in queued) else {},
    )
    return {run.pk: _reason(run, fleet, lines[run.queue], held, now) for run in queued}


def _line(queue: str, asked: Sequence[Run], held: Held, seconds: dict[str, float], now: datetime) -> _Line:
    """Place a queue's oldest waiting runs, and those asked about, in fair order; runs in back-off are left out."""
    waiting = Run.objects.filter(queue=queue, state=RunState.QUEUED.value).exclude(not_before__gt=now)
    rows = {
        run.pk: run for run in waiting.only("pk", "owner_id", "parent_id", "kind").order_by("pk")[: MOST_COUNTED + 1]
    }
    rows |= {run.pk: run for run in asked if run.queue == queue and (run.not_before is None or run.not_before <= now)}
    order = in_fair_order(sorted(rows.values(), key=lambda run: run.pk), queue, held)
    ahead = {run.pk: place for place, run in enumerate(order)}
    return _Line(ahead, held, seconds)


def held_gpus() -> dict[UUID | None, int]:
    """Return how many of its own GPUs each worker's runs hold."""
    rows = Run.objects.filter(state__in=HELD, gpus__gt=0, hosts=1).order_by("worker_id").values_list("worker_id")
    return dict(rows.annotate(Sum("gpus")))


def _serving(run: Run, workers: Sequence[tuple[Worker, set[UUID]]]) -> _Serving | Reason:
    serving = [worker for worker, owners in workers if serves(worker, owners, run)]
    if not serving:
        return Reason(Cause.NO_WORKER, f"no {_kind(run)} worker is online")
    if run.ability and not (serving := [worker for worker in serving if run.ability in abilities_of(worker)]):
        able_to = _ABLE_TO.get(run.ability, "do this")
        words = f"the online {_kind(run)} workers are too old to {able_to}: upgrade one of them"
        return Reason(Cause.OLD_WORKERS, words)
    able = [worker for worker in serving if not run.engine or not why_unserved(run, [worker])]
    if not able:
        return Reason(Cause.NO_ENGINE, why_unserved(run, serving))
    if all(is_closed(worker, run.queue) for worker in able):
        why = "they are drained, their broker is down, or their disks are full"
        if all(worker.drained_at for worker in able):
            why = "an administrator has drained them (`hub worker resume`)"
        return Reason(Cause.CLOSED, f"the online {_kind(run)} workers take no new runs: {why}")
    return _Serving(able, sum(worker.slots.get(run.queue, 0) for worker in able), _room(able, run.queue))


def _reason(run: Run, fleet: _Fleet, line: _Line, held: _Busy, now: datetime) -> Reason:
    if run.not_before is not None and run.not_before > now:
        seconds = math.ceil((run.not_before - now).total_seconds())
        wait = f"{seconds} s" if seconds < 90 else f"{math.ceil(seconds / 60)} min"
        return Reason(Cause.BACK_OFF, f"waiting {wait} before attempt {run.attempt + 1}")
    serving = fleet.serving(run)
    if isinstance(serving, Reason):
        return serving
    if line.held.is_full(run.owner_id, run.kind):
        count = line.held.by_kind[run.owner_id, run.kind]
        most = f"at most {line.held.limit(run.owner_id, run.kind)} {_PLURAL[RunKind(run.kind)]}"
        return Reason(Cause.OWNER_LIMIT, f"{run.owner.slug} has {count} of {most} running")
    ahead, slots = line.ahead[run.pk], serving.slots
    if run.hosts > 1:
        return _cluster_reason(run, serving.workers, line, held)
    if run.gpus:
        sizes = {worker.pk: fleet.gpus(worker) for worker in serving.workers}
        enough = [worker for worker in serving.workers if need_of(run).fits(sizes[worker.pk])]
        if not enough:
            every = in_words(size for owned in sizes.values() for size in owned)
            words = f"needs {need_of(run).words()} on one worker; the online workers have {every}"
            return Reason(Cause.TOO_FEW_GPUS, words)
        slots = min(slots, sum(len(sizes[worker.pk]) // run.gpus for worker in enough))
        if all(len(sizes[worker.pk]) - held.gpus.get(worker.pk, 0) < run.gpus for worker in enough):
            words = f"all GPUs are busy: {_ahead(ahead) if ahead else 'next in line'}"
            return Reason(Cause.GPUS_BUSY, words + _when(run, line, slots))
    if (run.sent_until is not None and run.sent_until > now) or serving.room > ahead:
        return Reason(Cause.COMING, "a worker is about to take it")
    return Reason(Cause.NO_SLOT, (_ahead(ahead) if ahead else "waiting for a free slot") + _when(run, line, slots))


def _room(workers: Sequence[Worker], queue: str) -> int:
    """How many runs of a queue these would take now, as they have said. Workers are those of `online_workers`."""
    rooms: list[int] = [worker.told.get(queue) or 0 for worker in workers]  # type: ignore[attr-defined]
    return sum(rooms)


def _cluster_reason(run: Run, serving: Sequence[Worker], line: _Line, held: _Busy) -> Reason:
    room, ahead = cluster_room(run, serving, held.clusters), line.ahead[run.pk]
    if not room.enough:
        return Reason(Cause.NO_CLUSTER, room.missing)
    after = _ahead(ahead) if ahead else "next in line"
    slots = sum(worker.slots.get(run.queue, 0) for worker in room.enough)
    if room.held:
        return Reason(Cause.GPUS_BUSY, f"{room.held}: {after}" + _when(run, line, slots))
    return Reason(Cause.NO_SLOT, (after if ahead else "waiting for a free slot") + _when(run, line, slots))


def _when(run: Run, line: _Line, slots: int) -> str:
    """Estimate when the run may start; "" if that is unknown."""
    if run.kind not in line.seconds:
        return ""
    seconds = until_start(line.ahead[run.pk], slots, line.seconds[run.kind])
    return f", starts in {duration_in_words(seconds)}"


def is_closed(worker: Worker, queue: str) -> bool:
    """Whether the worker, of `online_workers`, says that it does not consume a queue now."""
    return worker.told.get(queue, 0) is None  # type: ignore[attr-defined]


def _kind(run: Run) -> str:
    return "GPU" if run.queue == "gpu" else run.queue


def gpus_of(worker: Worker) -> list[int]:
    """Return the memory of each of the worker's GPUs in MB."""
    return [gpu.memory_mb for gpu in WorkerFacts.model_validate(worker.facts).gpus]


def _ahead(number: int) -> str:
    if number > MOST_COUNTED:
        return f"more than {MOST_COUNTED} runs ahead"
    return f"{number} {'run' if number == 1 else 'runs'} ahead"
