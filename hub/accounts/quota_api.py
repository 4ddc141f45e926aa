"""API of owners' own quotas, for administrators."""

from __future__ import annotations

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from envhub.protocol.accounts.quotas import QuotaRequest, QuotaView, QuotaViews
from envhub.protocol.accounts.users import Scope
from rest_framework.decorators import api_view
from rest_framework.request import Request

from hub.accounts.models import OwnerQuota
from hub.accounts.permissions import require_administrator
from hub.accounts.queries import find_owner
from hub.accounts.quotas import own_quotas
from hub.accounts.services import set_quota
from hub.accounts.wire import quota_view
from hub.core.http import answer, parse

MOST = 1000


@extend_schema(responses=QuotaViews)
@api_view(["GET"])
def quotas(request: Request) -> HttpResponse:
    """List the owners with a quota of their own, by name; the hub's settings apply to all others."""
    require_administrator(request, Scope.READ)
    return answer(QuotaViews(quotas=tuple(quota_view(row) for row in own_quotas()[:MOST])))


@extend_schema(methods=["GET"], responses=QuotaView)
@extend_schema(methods=["PUT"], request=QuotaRequest, responses=QuotaView)
@api_view(["GET", "PUT"])
def quota_detail(request: Request, owner: str) -> HttpResponse:
    """Return or replace an owner's own quota. Figures that are left out are the hub's; 0 means no limit."""
    require_administrator(request, Scope.READ if request.method == "GET" else Scope.WRITE)
    found = find_owner(owner)
    if request.method == "PUT":
        return answer(quota_view(set_quota(owner=found, request=parse(request, QuotaRequest))))
    return answer(quota_view(OwnerQuota.objects.filter(owner=found).first() or OwnerQuota(owner=found)))
