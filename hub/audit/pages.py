"""The page of the audit log."""

from __future__ import annotations

from typing import cast

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from hub.accounts.models import Role, User
from hub.accounts.queries import member_owners
from hub.audit.export import export_response
from hub.audit.queries import entries_for
from hub.core.pages import page, show
from hub.core.pagination import newest_first


@page
@never_cache
@login_required
@require_safe
def audit_list(request: HttpRequest) -> HttpResponseBase:
    """What was changed for an owner, newest first."""
    user, owner = cast("User", request.user), request.GET.get("owner", "").strip()
    rows, following = newest_first(entries_for(user, owner), request)
    context = {
        "section": "settings",
        "entries": rows,
        "next": following,
        "owner": owner or ("" if user.is_administrator else user.username),
        "owners": member_owners(user, Role.OWNER)[:200],
    }
    return show(request, "audit/entry_list.html", context)


@page
@never_cache
@login_required
@require_safe
def audit_export(request: HttpRequest) -> HttpResponseBase:
    """The same as a file of JSON lines."""
    return export_response(request, entries_for(cast("User", request.user), request.GET.get("owner", "").strip()))
