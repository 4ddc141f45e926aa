"""The registry: environments, versions, files and pushes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from envhub.client.blobs import Blobs, LocalBlob, Progress
from envhub.client.connection import Connection
from envhub.client.pages import iterate
from envhub.protocol.base import Page
from envhub.protocol.evals.version_diffs import VersionDiff
from envhub.protocol.registry.builds import EnvironmentLock, LockedWheel
from envhub.protocol.registry.needs import CheckSettings
from envhub.protocol.registry.packages import (
    EnvironmentPatch,
    EnvironmentView,
    FileContent,
    FileEntry,
    ForkRequest,
    MoveRequest,
    PushComplete,
    PushReply,
    PushRequest,
    VersionView,
    YankRequest,
)


class Environments:
    """Calls under /environments. `reference` is "owner/name"; `version` may be "latest"."""

    def __init__(self, connection: Connection, blobs: Blobs) -> None:
        self._hub = connection
        self._blobs = blobs

    def list(
        self,
        *,
        search: str | None = None,
        owner: str | None = None,
        kind: str | None = None,
        tag: str | None = None,
        starred: bool = False,
        sort: str | None = None,
    ) -> Iterator[EnvironmentView]:
        """Visible environments, newest first, or by `sort`: "recent", "stars" or "evaluated"."""
        narrowed = {"search": search, "owner": owner, "kind": kind, "tag": tag, "sort": sort}
        only = "yes" if starred else None
        return iterate(self._hub, "/environments", Page[EnvironmentView], **narrowed, starred=only)

    def archive(self, reference: str) -> EnvironmentView:
        """Make it read-only and leave it out of the list; again is a no-op."""
        return self._hub.put(f"/environments/{reference}/archive", None, EnvironmentView)

    def unarchive(self, reference: str) -> EnvironmentView:
        """Take it back from the archive."""
        self._hub.delete(f"/environments/{reference}/archive")
        return self.get(reference)

    def move(self, reference: str, to: MoveRequest) -> EnvironmentView:
        """Rename it, or give it to another owner; its former address goes on leading to it."""
        return self._hub.post(f"/environments/{reference}/move", to, EnvironmentView)

    def fork(self, reference: str, wanted: ForkRequest) -> EnvironmentView:
        """Make another environment that begins with one of its versions; the hub builds it."""
        return self._hub.post(f"/environments/{reference}/forks", wanted, EnvironmentView)

    def forks(self, reference: str) -> Iterator[EnvironmentView]:
        """Its forks that the caller may see, newest first."""
        return iterate(self._hub, f"/environments/{reference}/forks", Page[EnvironmentView])

    def forget(self, reference: str) -> None:
        """Forget a former address, which then can be used again."""
        self._hub.delete(f"/former-names/{reference}")

    def star(self, reference: str) -> EnvironmentView:
        """Mark an environment with one's star; again is a no-op."""
        return self._hub.put(f"/environments/{reference}/star", None, EnvironmentView)

    def unstar(self, reference: str) -> EnvironmentView:
        """Take one's star back."""
        self._hub.delete(f"/environments/{reference}/star")
        return self.get(reference)

    def get(self, reference: str) -> EnvironmentView:
        """One environment."""
        return self._hub.get(f"/environments/{reference}", EnvironmentView)

    def update(self, reference: str, patch: EnvironmentPatch) -> EnvironmentView:
        """Change visibility or description."""
        return self._hub.patch(f"/environments/{reference}", patch, EnvironmentView)

    def delete(self, reference: str) -> None:
        """Delete an environment with its versions."""
        self._hub.delete(f"/environments/{reference}")

    def versions(self, reference: str) -> Iterator[VersionView]:
        """Versions, newest first."""
        return iterate(self._hub, f"/environments/{reference}/versions", Page[VersionView])

    def version(self, reference: str, version: str = "latest") -> VersionView:
        """One version."""
        return self._hub.get(f"/environments/{reference}/versions/{version}", VersionView)

    def delete_version(self, reference: str, version: str) -> None:
        """Delete one version."""
        self._hub.delete(f"/environments/{reference}/versions/{version}")

    def yank(self, reference: str, version: str, request: YankRequest) -> VersionView:
        """Hide a version from resolution, or show it again."""
        return self._hub.patch(f"/environments/{reference}/versions/{version}/yank", request, VersionView)

    def rebuild(self, reference: str, version: str) -> VersionView:
        """Build a version again."""
        return self._hub.post(f"/environments/{reference}/versions/{version}/rebuild", None, VersionView)

    def check(self, reference: str, version: str, given: CheckSettings, *, reset: bool = False) -> VersionView:
        """Check a version again, with `given` added to its settings, or to its package's own after a `reset`."""
        path = f"/environments/{reference}/versions/{version}/check{'?reset=true' if reset else ''}"
        return self._hub.post(path, given, VersionView)

    def diff(self, reference: str, a: str, b: str) -> VersionDiff:
        """Version `b` against version `a`."""
        return self._hub.get(f"/environments/{reference}/diff", VersionDiff, a=a, b=b)

    def files(self, reference: str, version: str = "latest") -> Iterator[FileEntry]:
        """Files of a version's sdist."""
        return iterate(self._hub, f"/environments/{reference}/versions/{version}/files", Page[FileEntry])

    def file(self, reference: str, version: str, path: str) -> FileContent:
        """One file's text."""
        return self._hub.get(f"/environments/{reference}/versions/{version}/files", FileContent, path=path)

    def download(
        self, reference: str, version: VersionView, kind: str, target: Path, progress: Progress | None = None
    ) -> Path:
        """Fetch the "wheel" or the "sdist" of a version into the file `target`, hash checked."""
        sha256 = version.wheel_sha256 if kind == "wheel" else version.sdist_sha256
        path = f"/environments/{reference}/versions/{version.version}/download/{kind}"
        return self._blobs.download(path, target, sha256, progress)

    def lock(self, reference: str, version: str = "latest") -> EnvironmentLock:
        """What its build locked, with an address for each wheel."""
        return self._hub.get(f"/environments/{reference}/versions/{version}/lock", EnvironmentLock)

    def download_locked(self, wheel: LockedWheel, folder: Path, progress: Progress | None = None) -> Path:
        """Fetch a wheel of a lock into `folder`, hash checked."""
        return self._blobs.download(wheel.url or "", folder / Path(wheel.filename).name, wheel.sha256, progress)

    def begin_push(self, owner: str, request: PushRequest) -> PushReply:
        """Announce a version."""
        return self._hub.post(f"/environments/{owner}/{request.name}/pushes", request, PushReply, repeatable=True)

    def complete_push(self, owner: str, name: str, push_id: str) -> PushComplete:
        """The files are there: make the version."""
        path = f"/environments/{owner}/{name}/pushes/{push_id}/complete"
        return self._hub.post(path, None, PushComplete, repeatable=True)

    def push(
        self, owner: str, request: PushRequest, wheel: Path, sdist: Path, progress: Progress | None = None
    ) -> PushComplete:
        """Announce, upload what is missing, complete."""
        reply = self.begin_push(owner, request)
        by_hash = {blob.sha256: blob for blob in (LocalBlob.of(wheel), LocalBlob.of(sdist))}
        for upload in reply.missing:
            self._blobs.upload(upload, by_hash[upload.sha256], progress)
        return self.complete_push(owner, request.name, reply.push_id)
