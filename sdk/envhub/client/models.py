"""Client calls for the model catalog: registered endpoints and local model directories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from envhub.client.blobs import Blobs, LocalBlob, Progress
from envhub.client.connection import Connection
from envhub.client.directories import files_below
from envhub.client.pages import iterate
from envhub.errors import EnvhubError
from envhub.protocol.base import Page
from envhub.protocol.models.catalog import LocalModelRequest, ModelFiles, ModelRequest, ModelTest, ModelView
from envhub.protocol.visibility import Visibility


class Models:
    """Calls under /models. `reference` is "owner/name"."""

    def __init__(self, connection: Connection, blobs: Blobs) -> None:
        self._hub = connection
        self._blobs = blobs

    def list(self) -> Iterator[ModelView]:
        """List models that the caller may use."""
        return iterate(self._hub, "/models", Page[ModelView])

    def get(self, reference: str) -> ModelView:
        """Return one model."""
        return self._hub.get(f"/models/{reference}", ModelView)

    def put(self, owner: str, request: ModelRequest) -> ModelView:
        """Register or replace a model by its endpoints."""
        return self._hub.put(f"/models/{owner}/{request.name}", request, ModelView)

    def delete(self, reference: str) -> None:
        """Remove a model."""
        self._hub.delete(f"/models/{reference}")

    def test(self, reference: str) -> ModelTest:
        """Call every variant of a model once."""
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
        """Upload a model directory and register it, without hidden files (.git, .cache, .env).

        Links to files are followed.
        """
        blobs = {name: LocalBlob.of(path) for name, path in files_below(directory).items()}
        self._blobs.ensure(blobs.values(), progress, owner=reference.partition("/")[0])
        files = {name: blob.sha256 for name, blob in blobs.items()}
        request = LocalModelRequest(engine=engine, files=files, visibility=visibility)
        return self._hub.put(f"/models/{reference}/files", request, ModelView)

    def files(self, reference: str) -> ModelFiles:
        """Return names, sizes and URLs of a model's files; only for members of its owner."""
        return self._hub.get(f"/models/{reference}/files", ModelFiles)

    def get_directory(self, files: ModelFiles, directory: Path, progress: Progress | None = None) -> None:
        """Download all files into `directory` and check their hashes.

        Files that already have the right content are kept, so an interrupted call can be resumed by repeating it.
        Raises EnvhubError (codes `bad_path`, `bad_hash`).
        """
        for name, blob in files.files.items():
            target = directory.joinpath(*PurePosixPath(name).parts)
            if not target.resolve().is_relative_to(directory.resolve()):
                raise EnvhubError(f"the hub listed a file outside the directory: {name}", code="bad_path")
            if target.is_file() and target.stat().st_size == blob.size and LocalBlob.of(target).sha256 == blob.sha256:
                if progress:
                    progress(blob.size)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            self._blobs.download(blob.url or "", target, blob.sha256, progress)
