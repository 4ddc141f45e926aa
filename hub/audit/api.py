"""API of the audit log: pages of entries, or an export of all of them as JSON lines."""

from __future__ import annotations

from django.db.models import QuerySet
from django.http import HttpResponse, HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from envhub.protocol.accounts.audit import AuditEntryView
from envhub.protocol.accounts.users import Scope
from envhub.protocol.base import Page
from rest_framework.decorators import api_view
from rest_framework.request import Request

from hub.accounts.models import User
from hub.accounts.permissions import require_scope
from hub.audit.export import export_response
from hub.audit.filters import PARAMETERS, narrow, read_filter
from hub.audit.models import AuditEntry
from hub.audit.queries import entries_for
from hub.audit.wire import entry_view
from hub.core.http import answer_page
from hub.core.pagination import newest_first
from hub.core.requests.parameters import PAGE, query


@extend_schema(parameters=query("owner", *PARAMETERS, *PAGE), responses=Page[AuditEntryView])
@api_view(["GET"])
def audit_entries(request: Request) -> HttpResponse:
    """List the entries of the audit log.

    With `owner`, returns the changes made for that owner; the caller must have the role owner there. By default,
    returns the changes made for the caller's own account; administrators see all changes.
    """
    rows = _asked(request, require_scope(request, Scope.READ))
    return answer_page(*newest_first(rows, request), entry_view)


@extend_schema(parameters=query("owner", *PARAMETERS), responses={(200, "application/x-ndjson"): OpenApiTypes.BINARY})
@api_view(["GET"])
def audit_export(request: Request) -> HttpResponseBase:
    """Export the entries of the audit log, newest first. Each line is a JSON object."""
    return export_response(request._request, _asked(request, require_scope(request, Scope.READ)))


def _asked(request: Request, user: User) -> QuerySet[AuditEntry]:
    return narrow(entries_for(user, request.GET.get("owner", "")), read_filter(request.GET.dict()))
