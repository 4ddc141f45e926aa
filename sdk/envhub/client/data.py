"""Client calls for what the hub keeps for boxes: data sets and models (the Hugging Face cache), and external files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from envhub.client.blobs import Blobs, LocalBlob, Progress
from envhub.client.connection import Connection
from envhub.client.directories import files_below
from envhub.client.pages import iterate
from envhub.protocol.base import Page
from envhub.protocol.data import DataFile, DataKind, DataRequest, DataView
from envhub.protocol.registry.files import FileKind, FileRequest, FileView


class Data:
    """Calls under /data. `repository` is OWNER/NAME as on the Hugging Face hub."""

    def __init__(self, connection: Connection, blobs: Blobs) -> None:
        self._hub = connection
        self._blobs = blobs

    def list(self) -> Iterator[DataView]:
        """List the pinned snapshots."""
        return iterate(self._hub, "/data", Page[DataView])

    def add(
        self,
        kind: DataKind,
        repository: str,
        directory: Path,
        *,
        revision: str = "",
        progress: Progress | None = None,
    ) -> DataView:
        """Upload a directory as a snapshot of the repository, without hidden files. Links to files are followed.

        The snapshot becomes the pinned one unless `revision` is given, a commit or tag by which packages request it.
        """
        blobs = {name: LocalBlob.of(path) for name, path in files_below(directory).items()}
        self._blobs.ensure(blobs.values(), progress)
        files = tuple(DataFile(path=name, sha256=blob.sha256, size=blob.size) for name, blob in blobs.items())
        return self._hub.put(f"/data/{kind}/{repository}", DataRequest(files=files, revision=revision), DataView)

    def refresh(self, kind: DataKind, repository: str) -> DataView:
        """Pin what the operator's endpoint currently has."""
        return self._hub.post(f"/data/{kind}/{repository}/refresh", None, DataView)

    def delete(self, kind: DataKind, repository: str) -> None:
        """Remove a repository."""
        self._hub.delete(f"/data/{kind}/{repository}")

    def files(self) -> Iterator[FileView]:
        """List the external files."""
        return iterate(self._hub, "/data/files", Page[FileView])

    def add_file(self, kind: FileKind, name: str, path: Path, progress: Progress | None = None) -> FileView:
        """Upload a file. Boxes find it at the URL that `name` is or stands for."""
        blob = LocalBlob.of(path)
        self._blobs.ensure([blob], progress)
        request = FileRequest(kind=kind, name=name, sha256=blob.sha256, size=blob.size)
        return self._hub.put("/data/files", request, FileView)

    def delete_file(self, kind: FileKind, name: str) -> None:
        """Remove a file."""
        self._hub.delete("/data/files", kind=kind, name=name)
