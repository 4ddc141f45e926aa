"""The public face of a user or a team: what of theirs the viewer may see."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from hub.accounts.addresses import address_of
from hub.accounts.models import OwnerKind
from hub.accounts.queries import find_owner, members_of, visible_owners
from hub.accounts.services.users import RESERVED_SLUGS
from hub.catalog.queries import visible_models
from hub.core.errors import NotFound
from hub.core.pages import page, show
from hub.evals.queries import list_evaluations
from hub.evals.wire import listed_evaluations
from hub.registry.cards import listed
from hub.registry.queries import search_environments

MOST_ENVIRONMENTS = 20
MOST_EVALUATIONS = 8
MOST_MODELS = 12
MOST_MEMBERS = 50


@page
@require_safe
def owner_short(request: HttpRequest, owner: str) -> HttpResponseBase:
    """`/OWNER`: addresses of the hub itself come first, so a name that the hub keeps for itself is none of an owner."""
    if owner in RESERVED_SLUGS:
        raise NotFound("the page does not exist")
    return _owner_detail(request, owner)


@page
@require_safe
def owner_long(request: HttpRequest, owner: str) -> HttpResponseBase:
    """`/owners/OWNER`: of those whose name is an address of the hub; for others it leads to the short one."""
    return _owner_detail(request, owner) if owner in RESERVED_SLUGS else redirect(address_of(owner))


def _owner_detail(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Raises NotFound for an owner of whom the viewer may see nothing: as for one that does not exist."""
    user, owner = request.user, find_owner(slug)
    is_member = visible_owners(user).filter(pk=owner.pk).exists()
    environments = list(search_environments(user, owner=slug).order_by("-updated_at", "-pk")[: MOST_ENVIRONMENTS + 1])
    evaluations = list(list_evaluations(user, owner=slug)[:MOST_EVALUATIONS])
    models = list(visible_models(user).filter(owner=owner).prefetch_related(None)[:MOST_MODELS])
    if not (is_member or environments or evaluations or models):
        raise NotFound(f"the owner {slug} does not exist")
    is_team = owner.kind == OwnerKind.TEAM
    context = {
        "owner": owner,
        "is_team": is_team,
        "is_member": is_member,
        "environments": listed(user, environments[:MOST_ENVIRONMENTS]),
        "more_environments": len(environments) > MOST_ENVIRONMENTS,
        "evaluations": listed_evaluations(user, evaluations),
        "models": models,
        "members": members_of(owner)[:MOST_MEMBERS] if is_team and is_member else (),
    }
    return show(request, "web/owner_detail.html", context)
