"""Pages of webhooks: an owner's list, and one with its log of deliveries."""

from __future__ import annotations

from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from envhub.protocol.accounts.webhooks import CHOICES, WebhookBody, WebhookRequest

from hub.accounts.chosen_owner import named_owner
from hub.accounts.models import Role, User
from hub.accounts.queries import get_owner, member_owners
from hub.core.errors import HubError
from hub.core.http import validate
from hub.core.ids import GivenId
from hub.core.pages import page, show
from hub.core.pagination import newest_first
from hub.webhooks import services
from hub.webhooks.queries import deliveries_of, get_delivery, get_webhook, webhooks_of


@page
@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def webhook_list(request: HttpRequest) -> HttpResponseBase:
    """One owner's webhooks (the user's own unless `owner` says otherwise); POST makes one and shows its secret once."""
    user = cast("User", request.user)
    owner = get_owner(user, named_owner(request, Role.MAINTAINER))
    url, events = request.POST.get("url", "").strip(), request.POST.getlist("events")
    error: HubError | None = None
    secret = ""
    if request.method == "POST":
        try:
            wanted = validate(WebhookRequest, {"url": url, "events": events})
            _, secret = services.create_webhook(user=user, owner=owner, request=wanted)
        except HubError as found:
            error = found
    context = {
        "section": "settings",
        "owner": owner,
        "owners": member_owners(user, Role.MAINTAINER)[:100],
        "webhooks": webhooks_of(user, owner),
        "choices": [event.value for event in CHOICES],
        "secret": secret,
        "error": error,
        "url": url if error else "",
        "events": events,
    }
    return show(request, "webhooks/webhook_list.html", context, status=error.status if error else 200)


@page
@never_cache
@login_required
@require_safe
def webhook_detail(request: HttpRequest, webhook_id: GivenId) -> HttpResponseBase:
    """One webhook with its deliveries, newest first; asked for again while one is under way."""
    found = get_webhook(cast("User", request.user), webhook_id)
    rows, following = newest_first(deliveries_of(found), request)
    waiting = any(row.state == "waiting" for row in rows)
    told = [(row, WebhookBody.model_validate_json(row.body).data) for row in rows]
    context = {"section": "settings", "webhook": found, "deliveries": told, "next": following, "waiting": waiting}
    return show(request, "webhooks/webhook_detail.html", context)


@page
@login_required
@require_POST
def webhook_enable(request: HttpRequest, webhook_id: GivenId) -> HttpResponse:
    """Enable it, or with `disable` disable it."""
    user = cast("User", request.user)
    found = get_webhook(user, webhook_id)
    services.enable_webhook(user=user, webhook=found, enabled="disable" not in request.POST)
    return redirect("webhook", found.pk)


@page
@login_required
@require_POST
def webhook_test(request: HttpRequest, webhook_id: GivenId) -> HttpResponse:
    """Send a test message."""
    user = cast("User", request.user)
    found = get_webhook(user, webhook_id)
    services.send_test(user=user, webhook=found)
    return redirect("webhook", found.pk)


@page
@login_required
@require_POST
def delivery_again(request: HttpRequest, webhook_id: GivenId, delivery_id: GivenId) -> HttpResponse:
    """Send a message again."""
    user = cast("User", request.user)
    found = get_webhook(user, webhook_id)
    services.send_again(user=user, webhook=found, delivery=get_delivery(found, delivery_id))
    return redirect("webhook", found.pk)


@page
@login_required
@require_POST
def webhook_delete(request: HttpRequest, webhook_id: GivenId) -> HttpResponse:
    """Delete it with its log."""
    user = cast("User", request.user)
    found = get_webhook(user, webhook_id)
    services.delete_webhook(user=user, webhook=found)
    messages.info(request, f"Deleted the webhook {found.url}.")
    return redirect(f"{reverse('webhooks')}?{urlencode({'owner': found.owner.slug})}")
