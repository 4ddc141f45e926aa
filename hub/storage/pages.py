"""The page that shows how much the user's owners have stored."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from hub.accounts.models import Role
from hub.accounts.queries import member_owners
from hub.core.pages import show
from hub.storage.quota import quotas, used_by


@never_cache
@login_required
@require_safe
def storage_use(request: HttpRequest) -> HttpResponse:
    """Show the stored bytes of each owner that the user belongs to, and the limit."""
    owners = list(member_owners(request.user, Role.READER))
    keys = [owner.pk for owner in owners]
    used, limits = used_by(keys), quotas(keys)
    rows = [
        (owner.slug, used[owner.pk], limits[owner.pk], _percent(used[owner.pk], limits[owner.pk])) for owner in owners
    ]
    context = {"section": "settings", "rows": rows, "has_limits": any(limits.values())}
    return show(request, "storage/storage_use.html", context)


def _percent(used: int, limit: int | None) -> int:
    return min(100, round(100 * used / limit)) if limit else 0
