"""Sends waiting runs to workers: each to the own message queue of a worker that has room for it.

Only the claim gives a run to a worker, so a message may be lost, late or duplicated: it is trusted for some seconds,
then the run is sent again, to the same worker or another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, Q, QuerySet
from envhub.protocol.runs import RUN_TASK, BeatReply, BeatRequest, RunKind, RunState, RunTask, own_queue

from hub.core import clock
from hub.core.queue import send
from hub.runs.models import Lane, Run, Worker
from hub.runs.placing.clusters import FIELDS, held_needs, hosts_of, left_of
from hub.runs.placing.gpus import Cluster, need_of, offered_runs
from hub.runs.queries import claimable_runs, silent_after
from hub.runs.services.workers import note_worker
from hub.runs.transitions import HELD

TRUSTED_S, LONGEST_TRUSTED_S = 5.0, 300.0  # how long to wait for a message to be taken; doubles with each message
QUEUES_OUTSIDE_SLOTS = {RunKind.SERVE.value, RunKind.SANDBOX.value}  # their runs occupy no slot of a worker
MOST_CANCELLED = 1000  # reported per beat; the next beat reports others
MOST_LANES = 8  # considered for a run that has just been queued


def trusted(sends: int) -> timedelta:
    """Return how long to wait for message number `sends` (from 1) of an attempt to be taken."""
    return timedelta(seconds=min(LONGEST_TRUSTED_S, TRUSTED_S * 2 ** (sends - 1)))


def task_ids(run: Run) -> list[str]:
    """Return the task ids of every message sent for the next or current attempt."""
    attempt = run.attempt + (run.state == RunState.QUEUED)
    return [f"{run.pk}.{attempt}.{number}" for number in range(1, run.sends + 1)]


def dispatch_on_commit(queue: str) -> None:
    """After the commit, look for workers with room, because a run now waits in `queue`. Never raises."""
    transaction.on_commit(lambda: dispatch(queue, now=clock.now()), robust=True)


def dispatch(queue: str, *, now: datetime) -> int:
    """Send waiting runs of a queue, in order, to the first worker that takes any; return how many."""
    online = Q(worker__seen_at__gt=now - silent_after(), worker__token__revoked_at__isnull=True)
    lanes = Lane.objects.select_related("worker__token").filter(online, queue=queue, room__gt=0).order_by("-room")
    for lane in lanes[:MOST_LANES]:
        if sent := _fill(lane, now=now):
            return sent
    return 0


def receive_beat(*, worker: Worker, beat: BeatRequest, now: datetime) -> BeatReply:
    """Record a worker's report and send it as many runs as it has room for."""
    sent_here = Run.objects.filter(state=RunState.QUEUED.value, sent_to=worker)
    if beat.refused:
        sent_here.filter(pk__in=_ids(beat.refused)).update(sent_until=None)
    coming = list(sent_here.filter(sent_until__gt=now).only("queue", *FIELDS))
    free, busy = list(beat.free_gpus), list(beat.busy_gpus)
    for run in coming:
        free, busy = _taken(run, free, busy)
    note_worker(worker=worker, now=now, free_gpus=free, busy_gpus=busy, engines=beat.engines, gpu_use=beat.gpu_use)
    on_the_way = Counter(run.queue for run in coming)
    told = {} if worker.drained_at else beat.room
    room = {queue: max(0, told[queue] - on_the_way[queue]) if queue in told else None for queue in worker.queues}
    answered: list[RunTask] = []
    if beat.answer:  # no other process may send it anything
        _write_lanes(worker, {queue: None if number is None else 0 for queue, number in room.items()})
        lanes = [Lane(worker=worker, queue=queue, room=number) for queue, number in room.items()]
    else:
        lanes = _write_lanes(worker, room)
    sent = 0
    for lane in _with_runs(worker, [lane for lane in lanes if lane.room]):
        sent += _fill(lane, now=now, answered=answered if beat.answer else None)
    return BeatReply(sent=len(coming) + sent, tasks=tuple(answered), cancelled=_cancelled(worker))


def _cancelled(worker: Worker) -> tuple[str, ...]:
    """Return the cancelled runs that the worker has outside its slots; these rarely send heartbeats of their own."""
    if not QUEUES_OUTSIDE_SLOTS.intersection(worker.queues):
        return ()
    held = Run.objects.filter(
        worker=worker, queue__in=QUEUES_OUTSIDE_SLOTS, state__in=HELD, cancel_requested_at__isnull=False
    )
    return tuple(str(key) for key in held.values_list("pk", flat=True)[:MOST_CANCELLED])


def _write_lanes(worker: Worker, room: dict[str, int | None]) -> list[Lane]:
    lanes = {lane.queue: lane for lane in Lane.objects.filter(worker=worker)}
    missing = [Lane(worker=worker, queue=queue) for queue in room if queue not in lanes]
    if missing:
        Lane.objects.bulk_create(missing, ignore_conflicts=True)
        return _write_lanes(worker, room)
    for queue, lane in lanes.items():
        if lane.room != room.get(queue):
            lane.room = room.get(queue)
            Lane.objects.filter(pk=lane.pk).update(room=lane.room)
        lane.worker = worker
    return list(lanes.values())


def _with_runs(worker: Worker, lanes: Sequence[Lane]) -> list[Lane]:
    """Return the lanes with waiting runs in their queue. It takes one query, and most beats end there."""
    if not lanes:
        return []
    queued = Run.objects.filter(state=RunState.QUEUED.value)
    asked = [Exists(queued.filter(queue=lane.queue)) for lane in lanes]
    found = Worker.objects.filter(pk=worker.pk).values_list(*asked).first() or ()
    return [lane for lane, waits in zip(lanes, found, strict=False) if waits]


def _fill(lane: Lane, *, now: datetime, answered: list[RunTask] | None = None) -> int:
    """Send runs until the lane has no more room or nothing waits; return how many.

    answered: collects the runs instead of the broker, for a worker to which no other process sends anything.
    """
    worker, sent = lane.worker, 0
    waiting = _unsent(worker, lane.queue, now)
    gpus = {"free": worker.free_gpus, "busy": worker.busy_gpus}
    cluster = _cluster(worker, now)
    for run in offered_runs(waiting, lane.queue, **gpus, cluster=cluster, wanted=lane.room or 0):
        if answered is None and not _change_room(lane, -1):
            break  # another web process has filled it
        if not _mark(run, worker, now):
            _change_room(lane, 1)
            continue
        if answered is not None:
            answered.append(_task_of(run))
        elif not _send(_task_of(run), worker):
            Run.objects.filter(pk=run.pk, sends=run.sends).update(sent_until=None, sends=F("sends") - 1)
            _change_room(lane, 1)
            break  # the broker is unreachable
        sent += 1
        if need_of(run).count:
            worker.free_gpus, worker.busy_gpus = _taken(run, worker.free_gpus, worker.busy_gpus)
            Worker.objects.filter(pk=worker.pk).update(free_gpus=worker.free_gpus, busy_gpus=worker.busy_gpus)
    return sent


def _cluster(worker: Worker, now: datetime) -> Cluster:
    """Return the hosts of the worker's cluster, and what its runs, including those on their way, leave of them."""
    hosts = hosts_of(worker)
    held = held_needs([worker], coming=now) if hosts else {}
    return Cluster(hosts, left_of(hosts, held.get(worker.pk, [])))


def _change_room(lane: Lane, by: int) -> bool:
    """Change the lane's room; return False if there was not enough."""
    return Lane.objects.filter(pk=lane.pk, room__gte=max(0, -by)).update(room=F("room") + by) == 1


def _taken(run: Run, free: list[int], busy: list[int]) -> tuple[list[int], list[int]]:
    """Return the free and busy GPUs (MB each) after the run has taken those that it needs."""
    rest = need_of(run).rest(free)
    return rest, [*busy, *(Counter(free) - Counter(rest)).elements()]


def _unsent(worker: Worker, queue: str, now: datetime) -> QuerySet[Run]:
    due = Q(sent_until__isnull=True) | Q(sent_until__lte=now)
    return claimable_runs(worker, [queue], now=now).filter(due)


def _mark(run: Run, worker: Worker, now: datetime) -> bool:
    """Record where the run is sent, by compare-and-set, so that only one of two web processes sends it."""
    same = Run.objects.filter(pk=run.pk, state=run.state, attempt=run.attempt, sends=run.sends)
    run.sends += 1
    return same.update(sent_to=worker, sent_until=now + trusted(run.sends), sends=run.sends) == 1


def _task_of(run: Run) -> RunTask:
    return RunTask(
        run_id=str(run.pk), queue=run.queue, task_id=task_ids(run)[-1], label=f"run.{run.kind}", gpus=need_of(run)
    )


def _send(task: RunTask, worker: Worker) -> bool:
    queue = own_queue(task.queue, str(worker.pk))
    headers = {"gpus": task.gpus.model_dump(exclude_defaults=True)} if task.gpus.count else {}
    return send(RUN_TASK, task.run_id, queue=queue, task_id=task.task_id, label=task.label, headers=headers)


def _ids(texts: Sequence[str]) -> list[UUID]:
    """Parse ids from a worker, ignoring malformed ones."""
    found = []
    for text in texts:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found
