"""The recent usage of owners: the page in the settings, and the API."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from drf_spectacular.utils import extend_schema
from envhub.protocol.accounts.usage import USAGE_DAYS, UsageViews
from envhub.protocol.accounts.users import Scope
from rest_framework.decorators import api_view
from rest_framework.request import Request

from hub.accounts.models import Role
from hub.accounts.permissions import require_scope
from hub.accounts.queries import Caller, member_owners
from hub.core.http import answer
from hub.core.pages import show
from hub.runs.usage import usage_of
from hub.storage.quota import quotas, used_by


@extend_schema(responses=UsageViews)
@api_view(["GET"])
def usage(request: Request) -> HttpResponse:
    """Return what the caller's owners have used in the last 30 days, including today, and their limits."""
    return answer(_usage(require_scope(request, Scope.READ)))


@never_cache
@login_required
@require_safe
def usage_page(request: HttpRequest) -> HttpResponse:
    """Show the usage as tables."""
    owners = _usage(request.user).owners
    return show(request, "runs/usage.html", {"section": "settings", "owners": owners, "days": USAGE_DAYS})


def _usage(user: Caller) -> UsageViews:
    owners = sorted(member_owners(user, Role.READER), key=lambda owner: owner.slug)
    keys = [owner.pk for owner in owners]
    stored, limits = used_by(keys), quotas(keys)
    views = zip(owners, usage_of(owners, now=timezone.now()), strict=True)
    kept = {owner.pk: {"stored_bytes": stored[owner.pk], "stored_limit": limits[owner.pk]} for owner in owners}
    return UsageViews(owners=tuple(view.model_copy(update=kept[owner.pk]) for owner, view in views))
