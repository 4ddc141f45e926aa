"""The page of secrets: names of what an owner keeps; values go in and never come out."""

from __future__ import annotations

from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST
from envhub.protocol.accounts.secrets import SecretRequest

from hub.accounts.chosen_owner import named_owner
from hub.accounts.models import Owner, Role, User
from hub.accounts.queries import get_owner, has_role, member_owners, require_role
from hub.core.errors import HubError
from hub.core.http import validate
from hub.core.pages import page, show
from hub.secrets.queries import secrets_of
from hub.secrets.services import delete_secret, set_secret


@page
@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def secret_list(request: HttpRequest) -> HttpResponseBase:
    """One owner's secrets (the user's own unless `owner` says otherwise); POST sets one."""
    user = cast("User", request.user)
    owner = get_owner(user, named_owner(request))
    require_role(user, owner, Role.MEMBER)
    error: HubError | None = None
    if request.method == "POST":
        require_role(user, owner, Role.MAINTAINER)
        name = request.POST.get("name", "").strip()
        try:
            value = validate(SecretRequest, {"value": request.POST.get("value", "")}).value
            _, created = set_secret(owner=owner, name=name, value=value, user=user)
        except HubError as found:
            error = found
        else:
            messages.success(request, f"{'Set' if created else 'Replaced'} {name}.")
            return _to_list(owner)
    context = {
        "section": "settings",
        "owner": owner,
        "owners": member_owners(user, Role.MEMBER)[:100],
        "secrets": secrets_of(owner)[:500],
        "can_change": has_role(user, owner, Role.MAINTAINER),
        "error": error,
        "name": request.POST.get("name", ""),
    }
    return show(request, "secrets/secret_list.html", context, status=error.status if error else 200)


@page
@login_required
@require_POST
def secret_delete(request: HttpRequest, owner: str, name: str) -> HttpResponse:
    """Forget a secret."""
    user = cast("User", request.user)
    found = get_owner(user, owner)
    require_role(user, found, Role.MAINTAINER)
    delete_secret(owner=found, name=name)
    messages.info(request, f"Deleted {name}.")
    return _to_list(found)


def _to_list(owner: Owner) -> HttpResponse:
    return redirect(f"{reverse('secrets')}?{urlencode({'owner': owner.slug})}")
