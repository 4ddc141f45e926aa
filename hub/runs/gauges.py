"""Metrics about runs and workers that are read from the database, for /metrics. Every query is bounded: a scrape costs
the same in a hub with ten runs as in one with ten million.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Sum
from envhub.protocol.runs import EngineCounts, RunKind, RunState
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from hub.runs.models import Lane, LostLeases, Run, Worker
from hub.runs.placing.clusters import held_needs, hosts_of
from hub.runs.placing.queue_overview import (
    MOST_COUNTED,
    MOST_EXPLAINED,
    count_held,
    count_waiting,
    explained,
    oldest_waiting,
    queues,
)
from hub.runs.placing.waiting import Cause, gpus_of, held_gpus, online_workers
from hub.runs.transitions import HELD

MOST_OVERDUE = 1000


def run_gauges(now: datetime) -> Iterator[Metric]:
    """Yield the metrics of runs, what they wait for, and the workers that have them."""
    yield _active()
    yield _oldest(now)
    yield _waiting(now)
    yield from _leases(now)
    yield from _workers(now)


def _active() -> Metric:
    text = f"Runs that wait (at most {MOST_COUNTED} of a kind are counted) or are in workers' hands."
    family = GaugeMetricFamily("hub_runs", text, labels=["kind", "state"])
    held = count_held()
    for kind in RunKind:
        family.add_metric([kind.value, RunState.QUEUED.value], count_waiting(kind))
        for state in HELD:
            family.add_metric([kind.value, state.value], held.get((kind.value, state.value), 0))
    return family


def _oldest(now: datetime) -> Metric:
    text = "How long ago the oldest run was made that no worker has had yet; 0 when none waits."
    family = GaugeMetricFamily("hub_oldest_waiting_run_age_seconds", text, labels=["kind"])
    for kind in RunKind:
        made = oldest_waiting(kind)
        family.add_metric([kind.value], 0.0 if made is None else max(0.0, (now - made).total_seconds()))
    return family


def _waiting(now: datetime) -> Metric:
    text = f"Waiting runs by what they wait for; of each queue the {MOST_EXPLAINED} oldest."
    family = GaugeMetricFamily("hub_runs_waiting", text, labels=["kind", "reason"])
    counts = Counter((run.kind, reason.cause) for run, reason in explained(now))
    for kind in RunKind:
        for cause in Cause:
            family.add_metric([kind.value, cause.value], counts[kind.value, cause])
    return family


def _leases(now: datetime) -> Iterator[Metric]:
    lost = CounterMetricFamily("hub_leases_lost", "Leases that ran out: their worker was silent.", labels=["kind"])
    known = dict(LostLeases.objects.values_list("kind", "count"))
    for kind in RunKind:
        lost.add_metric([kind.value], known.get(kind.value, 0))
    yield lost
    late = now - timedelta(seconds=2 * settings.HUB.lease_seconds)
    overdue = Run.objects.filter(state__in=HELD, lease_expires_at__lt=late).values("lease_expires_at")[:MOST_OVERDUE]
    text = "Leases that ran out more than a lease ago and that no sweeper has ended."
    yield GaugeMetricFamily("hub_leases_overdue", text, value=overdue.count())


def _workers(now: datetime) -> Iterator[Metric]:
    workers = online_workers(now)
    yield GaugeMetricFamily("hub_workers_online", "Workers that have been heard of lately.", value=len(workers))
    slots = GaugeMetricFamily("hub_worker_slots", "Runs that the online workers take at once.", labels=["queue"])
    for queue in queues():
        slots.add_metric([queue], sum(worker.slots.get(queue, 0) for worker in workers))
    yield slots
    yield _free_slots(workers)
    yield from _engines(workers)
    clusters = [len(gpus) for worker in workers for gpus in hosts_of(worker)]
    total = sum(clusters) + sum(len(gpus_of(worker)) for worker in workers)
    yield GaugeMetricFamily("hub_gpus", "GPUs of the online workers and of their clusters.", value=total)
    own, shared = held_gpus(), held_needs(workers) if clusters else {}
    used = sum(
        max(own.get(worker.pk, 0), len(worker.busy_gpus)) + sum(need.count for need in shared.get(worker.pk, ()))
        for worker in workers
    )
    if clusters:
        used += Run.objects.filter(state__in=HELD).aggregate(extra=Sum("extra_gpus"))["extra"] or 0
    yield GaugeMetricFamily("hub_gpus_used", "Of these, held by runs and their engines.", value=used)


def _free_slots(workers: Sequence[Worker]) -> Metric:
    text = "Runs that the online workers could take now; drained workers and those without a broker take none."
    family = GaugeMetricFamily("hub_worker_slots_free", text, labels=["queue"])
    room = Counter(dict.fromkeys(queues(), 0))
    for queue, free in Lane.objects.filter(worker__in=workers, room__gt=0).values_list("queue", "room"):
        room[queue] += free or 0
    for queue, free in room.items():
        family.add_metric([queue], free)
    return family


def _engines(workers: Sequence[Worker]) -> Iterator[Metric]:
    """Engines that runs of a worker share, and training runs' own, as each last reported them."""
    training = Run.objects.filter(state__in=HELD, kind=RunKind.TRAIN.value)
    told = {
        "shared": [worker.engines for worker in workers],
        "training": list(training.values_list("progress__engines", flat=True)),
    }
    reports = {use: [EngineCounts.model_validate(counts) for counts in found if counts] for use, found in told.items()}
    family = GaugeMetricFamily("hub_engines", "Engines of models, by use and state.", labels=["use", "state"])
    for use, counts in reports.items():
        for state in ("starting", "serving", "idle"):
            family.add_metric([use, state], sum(getattr(one, state) for one in counts))
    yield family
    text = "Weight versions by which the slowest serving engine of any training run is behind the run's newest."
    behind = max((one.behind for one in reports["training"]), default=0)
    yield GaugeMetricFamily("hub_training_weights_behind", text, value=behind)
