"""Client calls for owners' own quotas (administrators)."""

from __future__ import annotations

from envhub.client.connection import Connection
from envhub.protocol.accounts.quotas import QuotaRequest, QuotaView, QuotaViews


class Quotas:
    """Calls under /quotas."""

    def __init__(self, connection: Connection) -> None:
        self._hub = connection

    def list(self) -> tuple[QuotaView, ...]:
        """List the owners with a quota of their own, by name."""
        return self._hub.get("/quotas", QuotaViews).quotas

    def get(self, owner: str) -> QuotaView:
        """Return an owner's own quota; without any figure where none is set."""
        return self._hub.get(f"/quotas/{owner}", QuotaView)

    def set(self, owner: str, request: QuotaRequest) -> QuotaView:
        """Replace an owner's own quota. Figures that are None are the hub's."""
        return self._hub.put(f"/quotas/{owner}", request, QuotaView)
