"""The administrators' page of owners' own quotas."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from envhub.protocol.accounts.quotas import QuotaRequest
from envhub.protocol.accounts.users import Scope

from hub.accounts.models import OwnerQuota
from hub.accounts.permissions import require_administrator
from hub.accounts.queries import find_owner
from hub.accounts.quotas import own_quotas
from hub.accounts.services import set_quota
from hub.core.errors import HubError
from hub.core.http import validate
from hub.core.pages import page, show

MOST = 500
FIGURES = ("running", "gpu_hours", "tokens", "storage_gb")


@page
@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def quotas(request: HttpRequest) -> HttpResponseBase:
    """The owners with a quota of their own; POST sets one. `owner` fills the form with what an owner has."""
    require_administrator(request, Scope.WRITE)
    given = {name: request.POST.get(name, "").strip() for name in ("owner", *FIGURES)}
    error: HubError | None = None
    if request.method == "POST":
        try:
            owner = find_owner(given["owner"])
            figures = {name: given[name] or None for name in FIGURES}
            made = set_quota(owner=owner, request=validate(QuotaRequest, figures))
        except HubError as found:
            error = found
        else:
            what = "has a quota of its own" if made.changed_at else "follows the hub's settings"
            messages.success(request, f"{owner.slug} now {what}.")
            return redirect("administration-quotas")
    elif asked := request.GET.get("owner", "").strip():
        given = {"owner": asked} | _figures(asked)
    hub = settings.HUB
    context = {
        "section": "settings",
        "rows": own_quotas()[:MOST],
        "given": given,
        "error": error,
        "of_all": {
            "running": ", ".join(f"{limit} {kind.value}" for kind, limit in hub.owner_running.items()),
            "gpu_hours": hub.owner_gpu_hours,
            "tokens": hub.owner_tokens,
            "storage_gb": hub.owner_quota_gb,
        },
    }
    return show(request, "web/administration_quotas.html", context, status=error.status if error else 200)


def _figures(slug: str) -> dict[str, str]:
    """Return what the form shows for an owner; empty where it has nothing of its own."""
    own = OwnerQuota.objects.filter(owner__slug=slug).first()
    values = {name: getattr(own, name, None) for name in FIGURES}
    return {name: "" if value is None else str(value).removesuffix(".0") for name, value in values.items()}
