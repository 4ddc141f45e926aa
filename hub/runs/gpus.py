"""Which waiting runs a worker is offered, given its GPUs. In fair order, and no big run is starved by small ones:

a run that the worker could hold if it were idle, but not now, keeps every later one that needs a GPU from this worker
until its GPUs are free. So it waits at most for what the worker holds at that moment. A run that the worker could
never hold keeps nobody waiting, and runs that need no GPU pass.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q, QuerySet
from envhub.protocol.gpus import GpuNeed

from hub.runs.fairness import MOST_OWNERS, next_runs
from hub.runs.models import Run

MOST_OFFERED = 20
LOOKED_AT = 200  # runs at the head of the line


def need_of(run: Run) -> GpuNeed:
    """What the run asks of a worker's GPUs."""
    return GpuNeed(count=run.gpus, memory_mb=run.gpu_memory_mb)


def offered_runs(
    runs: QuerySet[Run], queue: str, *, free: Sequence[int], busy: Sequence[int], wanted: int = MOST_OFFERED
) -> list[Run]:
    """Of the `runs` of a queue, the next for a worker with such free GPUs and such that its runs hold (MB each).

    wanted: how many it could take. Without GPUs nothing that is found can be too large, so that no more is looked at.
    """
    everything, left = [*free, *busy], list(free)
    possible = Q(gpus__lte=len(everything), gpu_memory_mb__lte=max(everything, default=0))
    offered: list[Run] = []
    blocked = False
    owners = MOST_OWNERS if everything else min(MOST_OWNERS, wanted)
    for run in next_runs(runs.filter(Q(gpus=0) | possible), queue, most=LOOKED_AT, owners=owners):
        need = need_of(run)
        if not run.gpus:
            offered.append(run)
        elif not blocked and need.fits(left):
            offered.append(run)
            left = need.rest(left)
        elif need.fits(everything):
            blocked = True
    return offered[: min(wanted, MOST_OFFERED)]
