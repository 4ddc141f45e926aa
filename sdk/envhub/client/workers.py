"""Workers, for administrators: who is online, tokens for new ones, revoking."""

from __future__ import annotations

from collections.abc import Iterator

from envhub.client.connection import Connection
from envhub.client.pages import iterate
from envhub.protocol.base import Page
from envhub.protocol.runs import WorkerDetail, WorkerTokenCreated, WorkerTokenRequest, WorkerView


class Workers:
    """Calls under /workers."""

    def __init__(self, connection: Connection) -> None:
        self._hub = connection

    def list(self) -> Iterator[WorkerView]:
        """Newest first, those that are away too."""
        return iterate(self._hub, "/workers", Page[WorkerView])

    def get(self, worker_id: str) -> WorkerDetail:
        """One of them, with the runs that it holds."""
        return self._hub.get(f"/workers/{worker_id}", WorkerDetail)

    def create_token(self, request: WorkerTokenRequest) -> WorkerTokenCreated:
        """A token for a new worker; its secret is only in this answer."""
        return self._hub.post("/workers", request, WorkerTokenCreated)

    def revoke(self, worker_id: str) -> None:
        """End a worker's token; what it holds returns to the queue."""
        self._hub.delete(f"/workers/{worker_id}")
