"""The page of the audit log."""

from __future__ import annotations

from typing import cast
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from hub.accounts.chosen_owner import chosen_team
from hub.accounts.models import Role, User
from hub.accounts.queries import member_owners
from hub.audit.actions import ACTIONS
from hub.audit.export import export_response
from hub.audit.filters import PARAMETERS, AuditFilter, narrow, read_filter
from hub.audit.lines import lines_of
from hub.audit.queries import entries_for
from hub.core.pages import page, show
from hub.core.pagination import newest_first


@page
@never_cache
@login_required
@require_safe
def audit_list(request: HttpRequest) -> HttpResponseBase:
    """What was changed for an owner, newest first."""
    user, owner = cast("User", request.user), _owner(request)
    narrowed = read_filter(request.GET.dict())
    rows, following = newest_first(narrow(entries_for(user, owner), narrowed), request)
    slugs = list(member_owners(user, Role.OWNER).values_list("slug", flat=True)[:200])
    shown = owner or ("" if user.is_administrator else user.username)
    given = {name: request.GET[name] for name in PARAMETERS if request.GET.get(name)}
    context = {
        "section": "settings",
        "lines": lines_of(user, rows),
        "next": following,
        "owner": shown,
        "owners": slugs if shown in ("", *slugs) else [shown, *slugs],
        "actions": sorted(set(ACTIONS.values())),
        "narrowed": narrowed,
        "is_narrowed": narrowed != AuditFilter(),
        "since": request.GET.get("since", ""),
        "until": request.GET.get("until", ""),
        "query": urlencode(({"owner": shown} if shown else {}) | given),
    }
    return show(request, "audit/entry_list.html", context)


def _owner(request: HttpRequest) -> str:
    """Return the owner that the address names, else the chosen one."""
    if "owner" in request.GET:
        return request.GET["owner"].strip()
    team = chosen_team(request, Role.OWNER)
    return team.slug if team else ""


@page
@never_cache
@login_required
@require_safe
def audit_export(request: HttpRequest) -> HttpResponseBase:
    """The same as a file of JSON lines."""
    rows = entries_for(cast("User", request.user), request.GET.get("owner", "").strip())
    return export_response(request, narrow(rows, read_filter(request.GET.dict())))
