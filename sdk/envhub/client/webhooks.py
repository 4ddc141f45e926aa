"""Webhooks of an owner."""

from __future__ import annotations

from collections.abc import Iterator

from envhub.client.connection import Connection
from envhub.client.pages import iterate
from envhub.protocol.accounts.webhooks import DeliveryView, NewWebhook, WebhookPatch, WebhookRequest, WebhookView
from envhub.protocol.base import Page


class Webhooks:
    """Calls under /webhooks."""

    def __init__(self, connection: Connection) -> None:
        self._hub = connection

    def create(self, request: WebhookRequest, owner: str | None = None) -> NewWebhook:
        """Make one; its secret is answered this once."""
        return self._hub.post("/webhooks", request, NewWebhook, owner=owner)

    def list(self, owner: str | None = None) -> Iterator[WebhookView]:
        """An owner's webhooks, newest first."""
        return iterate(self._hub, "/webhooks", Page[WebhookView], owner=owner)

    def get(self, webhook_id: str) -> WebhookView:
        """One webhook."""
        return self._hub.get(f"/webhooks/{webhook_id}", WebhookView)

    def enable(self, webhook_id: str, enabled: bool = True) -> WebhookView:
        """Enable or disable it."""
        return self._hub.patch(f"/webhooks/{webhook_id}", WebhookPatch(enabled=enabled), WebhookView)

    def delete(self, webhook_id: str) -> None:
        """Delete it with its log."""
        self._hub.delete(f"/webhooks/{webhook_id}")

    def test(self, webhook_id: str) -> DeliveryView:
        """Send a test message."""
        return self._hub.post(f"/webhooks/{webhook_id}/test", None, DeliveryView)

    def deliveries(self, webhook_id: str) -> Iterator[DeliveryView]:
        """Its messages, newest first."""
        return iterate(self._hub, f"/webhooks/{webhook_id}/deliveries", Page[DeliveryView])

    def again(self, webhook_id: str, delivery_id: str) -> DeliveryView:
        """Send a message again, under the same id."""
        path = f"/webhooks/{webhook_id}/deliveries/{delivery_id}/again"
        return self._hub.post(path, None, DeliveryView, repeatable=True)
