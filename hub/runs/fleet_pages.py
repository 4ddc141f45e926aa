"""The administrators' page of workers: which are online, what each can do, and revoking their tokens."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe
from envhub.protocol.accounts.users import Scope
from envhub.protocol.placing.gpus import GpuUse
from envhub.protocol.runs import WorkerFacts

from hub.accounts.permissions import require_administrator
from hub.core import clock
from hub.core.ids import GivenId
from hub.core.pages import page, show
from hub.core.pagination import newest_first
from hub.runs.gpu_use import mean_percent, polyline
from hub.runs.models import Worker
from hub.runs.queries import WorkerState, all_workers, count_workers, find_worker, held_runs, workers_in
from hub.runs.services import drain_worker, revoke_worker_token
from hub.runs.wire import worker_view


class UsedGpus(NamedTuple):
    """percent: their mean; used_mb and memory_mb: of all together; line: the mean in the last two hours."""

    percent: int | None
    used_mb: int
    memory_mb: int
    line: str


def used_gpus(worker: Worker, *, now: datetime) -> UsedGpus | None:
    """Return how much a worker's GPUs are used; None if it does not say."""
    use = [GpuUse.model_validate(one) for one in worker.gpu_use]
    if not use:
        return None
    memory = sum(gpu.memory_mb for gpu in WorkerFacts.model_validate(worker.facts).gpus)
    return UsedGpus(mean_percent(use), sum(one.used_mb for one in use), memory, polyline(worker.gpu_history, now))


@page
@never_cache
@login_required
@require_safe
def worker_list(request: HttpRequest) -> HttpResponseBase:
    """Workers in one state (default: online, if any are), newest first, with how many there are of each."""
    require_administrator(request, Scope.READ)
    now = clock.now()
    counts, asked = count_workers(now=now), request.GET.get("state", "")
    state = WorkerState(asked) if asked in set(WorkerState) else next(iter(counts), WorkerState.ONLINE)
    rows, following = newest_first(all_workers().filter(workers_in(state, now=now)), request)
    held = held_runs(rows)
    context = {
        "section": "settings",
        "counts": [(one.value, count, one is state) for one, count in counts.items()],
        "state": state.value,
        "workers": [(worker_view(row, now=now), held[row.pk], used_gpus(row, now=now)) for row in rows],
        "next": following,
    }
    return show(request, "runs/worker_list.html", context)


@page
@login_required
@require_POST
def worker_drain(request: HttpRequest, worker_id: GivenId) -> HttpResponse:
    """Have a worker take nothing new, or take runs again (drained=no)."""
    require_administrator(request, Scope.WRITE)
    worker, drained = find_worker(worker_id), request.POST.get("drained") != "no"
    drain_worker(worker=worker, drained=drained, now=clock.now())
    said = "takes no new runs and finishes those that it has" if drained else "takes runs again"
    messages.info(request, f"{worker.name} {said}.")
    return redirect("workers")


@page
@login_required
@require_POST
def worker_revoke(request: HttpRequest, worker_id: GivenId) -> HttpResponse:
    """Revoke a worker's token."""
    require_administrator(request, Scope.WRITE)
    worker = find_worker(worker_id)
    revoke_worker_token(token=worker.token, now=clock.now())
    messages.info(request, f"Revoked the token {worker.token.name}.")
    return redirect("workers")
