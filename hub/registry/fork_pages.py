"""Pages of forks: the form that makes one, and the list of existing ones."""

from __future__ import annotations

from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_safe
from envhub.protocol.registry.packages import ForkRequest

from hub.accounts.chosen_owner import default_owner
from hub.accounts.models import Role, User
from hub.accounts.queries import get_owner, member_owners
from hub.core.errors import HubError
from hub.core.http import validate
from hub.core.pages import page, show
from hub.core.pagination import newest_first
from hub.registry.cards import listed
from hub.registry.models import Environment
from hub.registry.pages import PAGE, environment_context
from hub.registry.queries import environment_versions, forks_of, get_version_of
from hub.registry.services import fork_environment

MOST_VERSIONS = 100


@page
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def environment_fork(request: HttpRequest, owner: str, name: str) -> HttpResponseBase:
    """Fork an environment that the user may see, then go to the version that is being built."""
    user = cast("User", request.user)
    context = environment_context(request, owner, name, tab="fork")
    environment, given = context["environment"], request.POST
    try:
        if request.method == "POST":
            made = _fork(request, user, environment)
            messages.success(request, f"Forked to {made.owner.slug}/{made.name}. It is being built.")
            version = given.get("version") if made.latest is None else made.latest.version
            return redirect("version", made.owner.slug, made.name, version)
    except HubError as error:
        context["error"] = error
    context |= {
        "owners": member_owners(user, Role.MEMBER)[:100],
        "versions": environment_versions(environment).order_by("-pk")[:MOST_VERSIONS],
        "chosen": given.get("version") or request.GET.get("version") or (context["view"] and context["view"].version),
        "to_owner": given.get("owner") or default_owner(request),
        "to_name": given.get("name", environment.name),
        "visibility": given.get("visibility", environment.visibility),
    }
    status = context["error"].status if "error" in context else 200
    return show(request, "registry/environment_fork.html", context, status=status)


def _fork(request: HttpRequest, user: User, environment: Environment) -> Environment:
    asked = {
        key: request.POST[key].strip() for key in ("owner", "name", "version", "visibility") if key in request.POST
    }
    wanted = validate(ForkRequest, {key: value for key, value in asked.items() if value})
    return fork_environment(
        user=user,
        version=get_version_of(environment, wanted.version),
        owner=get_owner(user, wanted.owner or user.username),
        name=wanted.name or "",
        visibility=wanted.visibility,
    )


@page
@require_safe
def environment_forks(request: HttpRequest, owner: str, name: str) -> HttpResponseBase:
    """List the forks of an environment that the user may see, newest first."""
    context = environment_context(request, owner, name, tab="forks")
    rows, following = newest_first(forks_of(request.user, context["environment"]), request, default=PAGE)
    found = {"environments": listed(request.user, rows), "next": following}
    return show(request, "registry/fork_list.html", context | found)
