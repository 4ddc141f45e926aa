"""Reads of webhooks: for maintainers of their owner."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db.models import OuterRef, QuerySet, Subquery

from hub.accounts.models import Owner, Role, User
from hub.accounts.queries import require_role, visible_owner_ids
from hub.core.errors import NotFound
from hub.core.ids import GivenId, find_by_id
from hub.webhooks.models import Delivery, Webhook

MOST = 10  # webhooks of an owner


def owners_with_webhooks(owners: Iterable[UUID]) -> set[UUID]:
    """Return which of the owners have an enabled webhook."""
    rows = Webhook.objects.filter(owner__in=list(owners), disabled_at__isnull=True)
    return set(rows.order_by().values_list("owner_id", flat=True))


def webhooks_of(user: User, owner: Owner) -> QuerySet[Webhook]:
    """An owner's webhooks, newest first. Raises NotAllowed."""
    require_role(user, owner, Role.MAINTAINER)
    return _told().filter(owner=owner).order_by("-pk")


def _told() -> QuerySet[Webhook]:
    """With `last_state` and `last_status` of the newest message that was tried; None when none was."""
    tried = Delivery.objects.filter(webhook=OuterRef("pk"), attempts__gt=0).order_by("-pk")
    rows = Webhook.objects.select_related("owner", "created_by")
    return rows.annotate(
        last_state=Subquery(tried.values("state")[:1]), last_status=Subquery(tried.values("status")[:1])
    )


def get_webhook(user: User, webhook_id: GivenId) -> Webhook:
    """One webhook. Raises NotFound, AmbiguousId, NotAllowed."""
    rows = Webhook.objects.filter(owner_id__in=visible_owner_ids(user)).select_related("owner", "created_by")
    found = find_by_id(rows, webhook_id, str)
    if found is None:
        raise NotFound("the webhook does not exist", hint="`hub webhook list` shows yours")
    require_role(user, found.owner, Role.MAINTAINER)
    return found


def deliveries_of(webhook: Webhook) -> QuerySet[Delivery]:
    """Its messages, newest first."""
    return Delivery.objects.filter(webhook=webhook).order_by("-pk")


def get_delivery(webhook: Webhook, delivery_id: GivenId) -> Delivery:
    """One message. Raises NotFound, AmbiguousId."""
    found = find_by_id(deliveries_of(webhook), delivery_id, str)
    if found is None:
        raise NotFound("the delivery does not exist for this webhook")
    return found
