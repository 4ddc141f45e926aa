"""Pages that belong to no single app: the start, the command line's wheel, the data sets that the hub keeps."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import condition, require_safe

from hub.accounts.chosen_owner import chosen_team
from hub.accounts.models import Role, User
from hub.accounts.queries import member_owners
from hub.accounts.services.signup import may_choose_password
from hub.core.pages import page, show
from hub.data.queries import listed as listed_snapshots
from hub.data.queries import listed_files, listed_images
from hub.evals.queries import visible_evaluations
from hub.evals.wire import listed_evaluations
from hub.registry.cards import listed
from hub.registry.queries import environments_of, search_environments
from hub.runs.queries import failed_runs, unfinished_runs
from hub.runs.wire import run_views
from hub.web.finding import find
from hub.web.moved_scores import moved_scores
from hub.web.sdk_wheel import sdk_wheel

SHOWN = 6
LATELY = timedelta(days=7)
MOST_DATA = 500
LONGEST_SEARCH = 200


@page
@require_safe
def home(request: HttpRequest) -> HttpResponseBase:
    """For a visitor: what this is and how to begin. For a user: what is yours and what is going on."""
    user = request.user
    hub_url = str(settings.HUB.base_url).rstrip("/")
    if not isinstance(user, User):
        public = search_environments(user).order_by("-pk")[:SHOWN]
        open_to_all = may_choose_password(next_path="/")
        context = {"environments": listed(user, public), "hub_url": hub_url, "may_sign_up": open_to_all}
        return show(request, "web/welcome.html", context)
    now = timezone.now()
    team = chosen_team(request)
    own = environments_of(user).filter(owner=team) if team else environments_of(user)
    runs = list(unfinished_runs(user)[:SHOWN])
    failed = list(failed_runs(user, now - LATELY)[:SHOWN])
    views = run_views([*runs, *failed], now=now)
    context = {
        "environments": listed(user, own.order_by("-updated_at", "-pk")[:SHOWN]),
        "team": team,
        "evaluations": listed_evaluations(user, list(visible_evaluations(user)[:SHOWN])),
        "moved": moved_scores(user, since=now - LATELY, most=SHOWN),
        "runs": [(run, views[run.pk]) for run in runs],
        "failed": [(run, views[run.pk]) for run in failed],
        "hub_url": hub_url,
    }
    return show(request, "web/home.html", context)


@page
@require_safe
def search(request: HttpRequest) -> HttpResponseBase:
    """Everything that matches, by kind. The box that Ctrl-K opens shows the same."""
    words = request.GET.get("q", "")[:LONGEST_SEARCH].strip()
    context = {"query": words, "groups": find(request.user, words)}
    return show(request, "web/search.html", context)


@require_safe
def cli(request: HttpRequest) -> HttpResponse:
    """The address that stays: leads to the wheel of this hub's version."""
    return redirect("cli-wheel")


@require_safe
@condition(etag_func=lambda request: f'"{sdk_wheel().sha256}"')
def cli_wheel(request: HttpRequest) -> HttpResponse:
    """`pip install "envhub[cli] @ ..."`. Never taken from a cache unasked: a version's wheel changes with the hub."""
    return HttpResponse(
        sdk_wheel().content, content_type="application/octet-stream", headers={"Cache-Control": "no-cache"}
    )


@page
@login_required
@require_safe
def data_list(request: HttpRequest) -> HttpResponseBase:
    """The data sets, models, files and images that environments find without a network."""
    user = cast("User", request.user)
    owner, images = request.GET.get("owner", ""), listed_images(user)
    context = {
        "section": "data",
        "owner": owner,
        "snapshots": listed_snapshots()[:MOST_DATA],
        "files": listed_files()[:MOST_DATA],
        "file_hosts": settings.HUB.file_hosts,
        "acts_for": set(member_owners(user, Role.MEMBER).values_list("pk", flat=True)),
        "images": (images.filter(owner__slug=owner) if owner else images)[:MOST_DATA],
        "registries": [entry.partition("=")[0] for entry in settings.HUB.image_registries],
        "upstream": settings.HUB.huggingface_url,
        "repositories": settings.HUB.huggingface_repositories,
    }
    return show(request, "web/data_list.html", context)
