"""Webhooks as wire types."""

from __future__ import annotations

from envhub.protocol.accounts.webhooks import DeliveryState, DeliveryView, WebhookView

from hub.webhooks.models import Delivery, Webhook


def webhook_view(row: Webhook) -> WebhookView:
    """Without its secret; expects the relations that hub.webhooks.queries loads."""
    return WebhookView(
        id=str(row.pk),
        owner=row.owner.slug,
        url=row.url,
        events=tuple(row.events),
        created_by=row.created_by.username,
        created_at=row.created_at,
        succeeded_at=row.succeeded_at,
        disabled_at=row.disabled_at,
        disabled_why=row.disabled_why,
    )


def delivery_view(row: Delivery) -> DeliveryView:
    """One message."""
    return DeliveryView(
        id=str(row.pk),
        event=row.event,
        state=DeliveryState(row.state),
        attempts=row.attempts,
        status=row.status,
        duration_s=row.duration_s,
        answer=row.answer,
        problem=row.problem,
        created_at=row.created_at,
        due_at=row.due_at,
    )
