"""Images of sandboxes that the hub keeps, or has pinned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from envhub.client.blobs import Blobs, LocalBlob, Progress
from envhub.client.connection import Connection
from envhub.client.pages import iterate
from envhub.protocol.base import Page
from envhub.protocol.sandboxes.images import ImageBuildRequest, ImageBuildView, ImageRequest, ImageView, Layout


class Images:
    """Calls under /images."""

    def __init__(self, connection: Connection, blobs: Blobs) -> None:
        self._hub = connection
        self._blobs = blobs

    def list(self) -> Iterator[ImageView]:
        """All of them."""
        return iterate(self._hub, "/images", Page[ImageView])

    def add(self, name: str, archive: Path, layout: Layout, *, progress: Progress | None = None) -> ImageView:
        """Upload a tar; `packaging.archives.image_archives` recognises what it is, and makes one of a directory."""
        blob = LocalBlob.of(archive)
        self._blobs.ensure([blob], progress)
        request = ImageRequest(name=name, layout=layout, sha256=blob.sha256, size=blob.size)
        return self._hub.put("/images", request, ImageView)

    def build(
        self,
        name: str,
        context: Path,
        *,
        dockerfile: str = "Dockerfile",
        arguments: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> ImageBuildView:
        """Upload the tar of a folder and queue its build; `hub.runs` follows it."""
        blob = LocalBlob.of(context)
        self._blobs.ensure([blob], progress)
        request = ImageBuildRequest(
            name=name, sha256=blob.sha256, size=blob.size, dockerfile=dockerfile, arguments=dict(arguments or {})
        )
        return self._hub.post("/images/builds", request, ImageBuildView)

    def delete(self, name: str) -> None:
        """Forget an image, or what its name is pinned to."""
        self._hub.delete("/images", name=name)
