"""What the caller's owners have used lately."""

from __future__ import annotations

from envhub.client.connection import Connection
from envhub.protocol.accounts.usage import UsageViews


class Usage:
    """Calls under /usage."""

    def __init__(self, connection: Connection) -> None:
        self._hub = connection

    def get(self) -> UsageViews:
        """Of the last 30 days, by owner and kind of run, with the limits."""
        return self._hub.get("/usage", UsageViews)
