"""Pages for administrators beside users and workers: the queue, all sandboxes, storage, data sets with their users."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe
from envhub.protocol.accounts.users import Scope
from envhub.protocol.runs import RunKind

from hub.accounts.models import Owner
from hub.accounts.permissions import require_administrator
from hub.core import clock
from hub.core.pages import page, show
from hub.core.pagination import newest_first, oldest_first
from hub.data.models import RepositoryKind
from hub.data.queries import MOST_LARGEST, largest_first, listed
from hub.data.services import remove
from hub.registry.queries import DataUse, users_of_data
from hub.runs.live_sandboxes import runs_with_sandboxes
from hub.runs.placing.queue_overview import queue_lines, waiting_runs
from hub.runs.wire import run_views
from hub.sandboxes.queries import living_by_owner, living_by_worker, living_sandboxes, of_owner_or_worker
from hub.sandboxes.wire import sandbox_views
from hub.storage.garbage import latest_pass
from hub.storage.queries import largest_holders, pending_uploads, total_held
from hub.storage.quota import GB, quotas

MOST_GROUPS = 50  # owners, or workers, that are counted on the page of sandboxes
MOST_OWNERS = 200


@page
@never_cache
@login_required
@require_safe
def queue(request: HttpRequest) -> HttpResponseBase:
    """How much waits and for what (live), and the waiting runs, oldest first."""
    require_administrator(request, Scope.READ)
    now = clock.now()
    kind, owner = (request.GET.get(name, "").strip() for name in ("kind", "owner"))
    rows, following = oldest_first(waiting_runs(kind=kind, owner=owner), request)
    views = run_views(rows, now=now)
    context = {
        "section": "settings",
        "kinds": [item.value for item in RunKind],
        "kind": kind,
        "owner": owner,
        "lines": queue_lines(now),
        "rows": [(row, views[row.pk]) for row in rows],
        "next": following,
        "live": "after" not in request.GET,
    }
    return show(request, "web/administration_queue.html", context)


@page
@never_cache
@login_required
@require_safe
def sandboxes(request: HttpRequest) -> HttpResponseBase:
    """The sandboxes that wait or run, of everybody or of an owner or a worker, and the runs that have some inside."""
    require_administrator(request, Scope.READ)
    owner, worker = (request.GET.get(name, "").strip() for name in ("owner", "worker"))
    rows, following = newest_first(of_owner_or_worker(living_sandboxes(), owner=owner, worker=worker), request)
    first = "before" not in request.GET
    context = {
        "section": "settings",
        "sandboxes": sandbox_views(rows, now=clock.now()),
        "next": following,
        "owner": owner,
        "worker": worker,
        "by_owner": living_by_owner()[:MOST_GROUPS],
        "by_worker": living_by_worker()[:MOST_GROUPS],
        "runs": runs_with_sandboxes(owner=owner, worker=worker) if first else [],
        "live": first,
    }
    return show(request, "web/administration_sandboxes.html", context)


@dataclass(frozen=True)
class Held:
    """What counts for an owner; `owner` is "" for one that is gone."""

    owner: str
    size: int
    limit: int | None
    percent: int


@page
@never_cache
@login_required
@require_safe
def storage(request: HttpRequest) -> HttpResponseBase:
    """Bytes by owner, uploads that are not confirmed, and what the garbage collection found last."""
    require_administrator(request, Scope.READ)
    used = largest_holders(MOST_OWNERS)
    limits = quotas(used)
    names = dict(Owner.objects.filter(pk__in=used).values_list("pk", "slug"))
    rows = [
        Held(names.get(holder, ""), size, limit, min(100, round(100 * size / limit)) if limit else 0)
        for holder, size in used.items()
        for limit in [limits[holder]]
    ]
    context = {
        "section": "settings",
        "rows": rows,
        "limit": round(settings.HUB.owner_quota_gb * GB),
        "total": total_held(),
        "pending": pending_uploads(),
        "garbage": latest_pass(),
        "capped": len(rows) == MOST_OWNERS,
    }
    return show(request, "web/administration_storage.html", context)


@page
@never_cache
@login_required
@require_safe
def data_sets(request: HttpRequest) -> HttpResponseBase:
    """The kept data sets and models, with the environments whose checks loaded them."""
    require_administrator(request, Scope.READ)
    search, by_size = request.GET.get("q", "").strip(), request.GET.get("sort") == "size"
    found = listed().filter(repository__icontains=search) if search else listed()
    rows, following = (largest_first(found), None) if by_size else newest_first(found, request)
    uses = users_of_data({row.repository for row in rows})
    context = {
        "section": "settings",
        "q": search,
        "by_size": by_size,
        "most": MOST_LARGEST,
        "rows": [(row, uses.get(row.repository, DataUse())) for row in rows],
        "next": following,
    }
    return show(request, "web/administration_data.html", context)


@page
@login_required
@require_POST
def data_forget(request: HttpRequest) -> HttpResponse:
    """Forget every revision of a data set or a model; its bytes go with the next garbage collection."""
    require_administrator(request, Scope.WRITE)
    kind, repository = request.POST.get("kind", ""), request.POST.get("repository", "")
    remove(kind=kind if kind in RepositoryKind.values else RepositoryKind.DATASET.value, repository=repository)
    messages.info(request, f"Removed {repository}. The next collect_garbage frees its space.")
    return redirect("administration-data")
