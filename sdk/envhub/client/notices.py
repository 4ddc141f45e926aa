"""The caller's notifications."""

from __future__ import annotations

from collections.abc import Iterator

from envhub.client.connection import Connection
from envhub.client.pages import iterate
from envhub.protocol.accounts.notices import (
    NoticeChoices,
    NoticeChoicesView,
    NoticeView,
    ScoreWatches,
    ScoreWatchRequest,
    ScoreWatchView,
)
from envhub.protocol.base import Page


class Notices:
    """Calls under /notifications, and those about scores that the caller wants to hear of."""

    def __init__(self, connection: Connection) -> None:
        self._hub = connection

    def list(self) -> Iterator[NoticeView]:
        """All of them, newest first."""
        return iterate(self._hub, "/notifications", Page[NoticeView])

    def read(self, notice_id: str | None = None) -> None:
        """Mark one as read, or all."""
        path = f"/notifications/{notice_id}/read" if notice_id else "/notifications/read"
        self._hub.send("POST", path, repeatable=True)

    def choices(self) -> NoticeChoicesView:
        """What the caller is told."""
        return self._hub.get("/notifications/choices", NoticeChoicesView)

    def choose(self, choices: NoticeChoices) -> NoticeChoicesView:
        """Say what the caller wants to be told."""
        return self._hub.put("/notifications/choices", choices, NoticeChoicesView)

    def watches(self, environment: str) -> ScoreWatches:
        """The scores on `owner/name` that the caller is told of."""
        return self._hub.get(f"/environments/{environment}/watches", ScoreWatches)

    def watch(self, environment: str, request: ScoreWatchRequest) -> ScoreWatchView:
        """Be told of scores of one model, or of any."""
        return self._hub.put(f"/environments/{environment}/watches", request, ScoreWatchView)

    def unwatch(self, environment: str, watch_id: str) -> None:
        """Be told no longer."""
        self._hub.delete(f"/environments/{environment}/watches/{watch_id}")
