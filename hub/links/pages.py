"""Pages for members: the share links to one thing, with the form that makes one, and all of an owner."""

from __future__ import annotations

from typing import Any, cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from envhub.protocol.accounts.links import ShareLinkRequest

from hub.accounts.chosen_owner import named_owner
from hub.accounts.models import Role, User
from hub.accounts.queries import get_owner, member_owners
from hub.core import clock
from hub.core.errors import HubError
from hub.core.http import validate
from hub.core.ids import GivenId
from hub.core.pages import page, show
from hub.core.pagination import newest_first
from hub.evals.comparing.view import asked_of
from hub.links.models import ShareLink
from hub.links.queries import get_link, links_of
from hub.links.services import Target, create_link, find_target, revoke_link

OFFERED = (1, 7, 30, 90, 365)  # days
SHOWN = 100


@page
@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def evaluation_links(request: HttpRequest, evaluation_id: GivenId) -> HttpResponseBase:
    """The links to an evaluation."""
    return _object(request, {"evaluations": [str(evaluation_id)]}, reverse("evaluation", args=[evaluation_id]))


@page
@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def rollout_links(request: HttpRequest, evaluation_id: GivenId, example: int, rollout: int) -> HttpResponseBase:
    """The links to one rollout."""
    wanted = {"evaluations": [str(evaluation_id)], "example": example, "rollout": rollout}
    return _object(request, wanted, reverse("rollout", args=[evaluation_id, example, rollout]))


@page
@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def training_links(request: HttpRequest, training_id: GivenId) -> HttpResponseBase:
    """The links to a training run."""
    return _object(request, {"training": str(training_id)}, reverse("training-run", args=[training_id]))


@page
@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def comparison_links(request: HttpRequest) -> HttpResponseBase:
    """`?a=ID&b=ID`: the links to a comparison."""
    asked = asked_of(request.GET)
    wanted = {"evaluations": [str(asked.a), *(str(one) for one in asked.b)]}
    return _object(request, wanted, f"{reverse('evaluation-compare')}?{asked.sides}")


def _object(request: HttpRequest, wanted: dict[str, Any], back: str) -> HttpResponseBase:
    """The links to one thing; POST makes one, and shows its address once."""
    user = cast("User", request.user)
    asked = validate(ShareLinkRequest, wanted)
    target = find_target(user, asked)
    rows = _of_target(links_of(user, target.owner), target).filter(kind=asked.kind.value)
    given = {name: request.POST.get(name, "").strip() for name in ("days", "until", "note")}
    error: HubError | None = None
    url = ""
    if request.method == "POST":
        try:
            _, url = create_link(user=user, request=validate(ShareLinkRequest, wanted | _chosen(given)))
        except HubError as found:
            error = found
    most = settings.HUB.share_link_days
    context = {
        "section": "training" if asked.training else "evaluations",
        "kind": asked.kind.value,
        "subject": target.subject,
        "owner": target.owner,
        "back": back,
        "links": rows[:SHOWN],
        "days": [days for days in OFFERED if days <= most] or [most],
        "most": most,
        "today": clock.now(),
        "given": given if error else {},
        "url": url,
        "error": error,
        "now": clock.now(),
    }
    return show(request, "links/object_links.html", context, status=error.status if error else 200)


def _chosen(given: dict[str, str]) -> dict[str, Any]:
    """What the form says; a date ends with its day, in UTC."""
    end = {"expires_at": f"{given['until']}T23:59:59Z"} if given["until"] else {"days": given["days"] or None}
    return end | {"note": given["note"]}


def _of_target(rows: QuerySet[ShareLink], target: Target) -> QuerySet[ShareLink]:
    if target.training is not None:
        return rows.filter(training=target.training)
    rows = rows.filter(sides=len(target.evaluations), example=target.example, rollout=target.rollout)
    for place, evaluation in enumerate(target.evaluations):
        rows = rows.filter(evaluations__evaluation=evaluation, evaluations__position=place)
    return rows


@page
@never_cache
@login_required
@require_safe
def link_list(request: HttpRequest) -> HttpResponseBase:
    """All links of one owner (the user unless `owner` says otherwise), newest first."""
    user = cast("User", request.user)
    owner = get_owner(user, named_owner(request))
    rows, following = newest_first(links_of(user, owner), request)
    context = {
        "section": "settings",
        "owner": owner,
        "owners": member_owners(user, Role.MEMBER)[:100],
        "links": rows,
        "next": following,
        "now": clock.now(),
        "most": settings.HUB.share_link_days,
    }
    return show(request, "links/link_list.html", context)


@page
@login_required
@require_POST
def link_revoke(request: HttpRequest, link_id: GivenId) -> HttpResponse:
    """End a link at once; `back` is the page that asked."""
    user = cast("User", request.user)
    link = get_link(user, link_id)
    revoke_link(user=user, link=link)
    messages.info(request, "Link revoked.")
    back = request.POST.get("back", "")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts=None):
        back = f"{reverse('links')}?{urlencode({'owner': link.owner.slug})}"
    return redirect(back)
