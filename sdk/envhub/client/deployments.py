"""Deployments: models and adapters that are kept ready behind /inference/v1."""

from __future__ import annotations

from collections.abc import Iterator

from envhub.client.connection import Connection
from envhub.client.pages import iterate
from envhub.protocol.base import Page
from envhub.protocol.models.deployments import DeploymentRequest, DeploymentView


class Deployments:
    """Calls under /deployments."""

    def __init__(self, connection: Connection) -> None:
        self._hub = connection

    def create(self, request: DeploymentRequest) -> DeploymentView:
        """Serve a model; the deployment that is there already is answered again."""
        return self._hub.post("/deployments", request, DeploymentView, repeatable=True)

    def list(self, *, owner: str | None = None) -> Iterator[DeploymentView]:
        """Visible deployments, newest first."""
        return iterate(self._hub, "/deployments", Page[DeploymentView], owner=owner)

    def get(self, deployment_id: str) -> DeploymentView:
        """One deployment with its usage."""
        return self._hub.get(f"/deployments/{deployment_id}", DeploymentView)

    def delete(self, deployment_id: str) -> None:
        """Stop serving."""
        self._hub.delete(f"/deployments/{deployment_id}")
