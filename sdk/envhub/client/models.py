"""The model catalog: registered endpoints and local model directories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from envhub.client.blobs import Blobs, LocalBlob, Progress
from envhub.client.connection import Connection
from envhub.client.pages import iterate
from envhub.protocol.base import Page
from envhub.protocol.models import LocalModelRequest, ModelRequest, ModelTest, ModelView
from envhub.protocol.packages import Visibility


class Models:
    """Calls under /models. `reference` is "owner/name"."""

    def __init__(self, connection: Connection, blobs: Blobs) -> None:
        self._hub = connection
        self._blobs = blobs

    def list(self) -> Iterator[ModelView]:
        """Models that the caller may use."""
        return iterate(self._hub, "/models", Page[ModelView])

    def get(self, reference: str) -> ModelView:
        """One model."""
        return self._hub.get(f"/models/{reference}", ModelView)

    def put(self, owner: str, request: ModelRequest) -> ModelView:
        """Register or replace a model by its endpoints."""
        return self._hub.put(f"/models/{owner}/{request.name}", request, ModelView)

    def delete(self, reference: str) -> None:
        """Remove a model."""
        self._hub.delete(f"/models/{reference}")

    def test(self, reference: str) -> ModelTest:
        """Call every variant once."""
        return self._hub.post(f"/models/{reference}/test", None, ModelTest)

    def put_directory(
        self,
        reference: str,
        directory: Path,
        *,
        engine: str,
        visibility: Visibility | None = None,
        progress: Progress | None = None,
    ) -> ModelView:
        """Upload a model directory and register it; hidden files (.git, .cache, .env) are left out."""
        found = (path for path in directory.rglob("*") if path.is_file())
        paths = sorted(p for p in found if not any(part.startswith(".") for part in p.relative_to(directory).parts))
        blobs = {str(path.relative_to(directory)): LocalBlob.of(path) for path in paths}
        self._blobs.ensure(blobs.values(), progress, owner=reference.partition("/")[0])
        files = {name: blob.sha256 for name, blob in blobs.items()}
        request = LocalModelRequest(engine=engine, files=files, visibility=visibility)
        return self._hub.put(f"/models/{reference}/files", request, ModelView)
