"""The menu in the header that chooses for whom one acts, and the page with the same for browsers without scripts."""

from __future__ import annotations

from typing import cast
from urllib.parse import parse_qsl, urlencode, urlsplit

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from hub.accounts.chosen_owner import choose_owner
from hub.accounts.models import Role, User
from hub.accounts.queries import member_owners
from hub.core.errors import Invalid
from hub.core.pages import page, show

OFFERED = 200


@page
@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def acting(request: HttpRequest) -> HttpResponseBase:
    """Offer the user and their teams (GET), or act for one from now on (POST) and go back to where they were."""
    user = cast("User", request.user)
    owners = member_owners(user, Role.READER)
    if request.method != "POST":
        context = {"section": "settings", "owners": owners[:OFFERED], "next": _before(request)}
        return show(request, "accounts/acting.html", context)
    owner = owners.filter(slug=request.POST.get("owner", "")).first()
    if owner is None:
        raise Invalid("you are not a member of this team", hint="choose another")
    choose_owner(request, owner)
    return redirect(_without_owner(request, request.POST.get("next", "")))


def _before(request: HttpRequest) -> str:
    """Return the page on which the menu was opened."""
    return getattr(request.htmx, "current_url_abs_path", None) or ""  # type: ignore[attr-defined]  # django_htmx's


def _without_owner(request: HttpRequest, path: str) -> str:
    """Return a page of this hub; its address no longer names the owner that was shown before."""
    if not url_has_allowed_host_and_scheme(path, allowed_hosts=None):
        return "/"
    parts = urlsplit(path)
    query = urlencode([pair for pair in parse_qsl(parts.query) if pair[0] != "owner"])
    return parts._replace(query=query).geturl()
