"""Client calls for the registry: environments, versions, files and pushes."""

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
        """List visible environments, newest first, or by `sort`: "recent", "stars", "evaluated" or "trainable"."""
        narrowed = {"search": search, "owner": owner, "kind": kind, "tag": tag, "sort": sort}
        only = "yes" if starred else None
        return iterate(self._hub, "/environments", Page[EnvironmentView], **narrowed, starred=only)

    def archive(self, reference: str) -> EnvironmentView:
        """Make an environment read-only and unlisted. Repeating the call changes nothing."""
        return self._hub.put(f"/environments/{reference}/archive", None, EnvironmentView)

    def unarchive(self, reference: str) -> EnvironmentView:
        """Restore an environment from the archive."""
        self._hub.delete(f"/environments/{reference}/archive")
        return self.get(reference)

    def move(self, reference: str, to: MoveRequest) -> EnvironmentView:
        """Rename an environment or transfer it to another owner; its former address keeps redirecting to it."""
        return self._hub.post(f"/environments/{reference}/move", to, EnvironmentView)

    def fork(self, reference: str, wanted: ForkRequest) -> EnvironmentView:
        """Create an environment from a version of this one; the hub builds it."""
        return self._hub.post(f"/environments/{reference}/forks", wanted, EnvironmentView)

    def forks(self, reference: str) -> Iterator[EnvironmentView]:
        """List the forks that the caller may see, newest first."""
        return iterate(self._hub, f"/environments/{reference}/forks", Page[EnvironmentView])

    def forget(self, reference: str) -> None:
        """Release a former address, so that it can be reused."""
        self._hub.delete(f"/former-names/{reference}")

    def star(self, reference: str) -> EnvironmentView:
        """Star an environment as the caller. Repeating the call changes nothing."""
        return self._hub.put(f"/environments/{reference}/star", None, EnvironmentView)

    def unstar(self, reference: str) -> EnvironmentView:
        """Remove the caller's star."""
        self._hub.delete(f"/environments/{reference}/star")
        return self.get(reference)

    def get(self, reference: str) -> EnvironmentView:
        """Return one environment."""
        return self._hub.get(f"/environments/{reference}", EnvironmentView)

    def update(self, reference: str, patch: EnvironmentPatch) -> EnvironmentView:
        """Change visibility, description or tags."""
        return self._hub.patch(f"/environments/{reference}", patch, EnvironmentView)

    def delete(self, reference: str) -> None:
        """Delete an environment with its versions."""
        self._hub.delete(f"/environments/{reference}")

    def versions(self, reference: str) -> Iterator[VersionView]:
        """List the versions, newest first."""
        return iterate(self._hub, f"/environments/{reference}/versions", Page[VersionView])

    def version(self, reference: str, version: str = "latest") -> VersionView:
        """Return one version."""
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
        """Repeat a version's checks with `given` added to its settings; `reset` starts from its package's settings."""
        path = f"/environments/{reference}/versions/{version}/check"
        return self._hub.post(path, given, VersionView, reset="true" if reset else None)

    def diff(self, reference: str, a: str, b: str) -> VersionDiff:
        """Compare version `b` with version `a`."""
        return self._hub.get(f"/environments/{reference}/diff", VersionDiff, a=a, b=b)

    def files(self, reference: str, version: str = "latest") -> Iterator[FileEntry]:
        """List the files of a version's sdist."""
        return iterate(self._hub, f"/environments/{reference}/versions/{version}/files", Page[FileEntry])

    def file(self, reference: str, version: str, path: str) -> FileContent:
        """Return the text of one file."""
        return self._hub.get(f"/environments/{reference}/versions/{version}/files", FileContent, path=path)

    def download(
        self, reference: str, version: VersionView, kind: str, target: Path, progress: Progress | None = None
    ) -> Path:
        """Download the "wheel" or "sdist" of a version into the file `target` and check its hash."""
        sha256 = version.wheel_sha256 if kind == "wheel" else version.sdist_sha256
        path = f"/environments/{reference}/versions/{version.version}/download/{kind}"
        return self._blobs.download(path, target, sha256, progress)

    def lock(self, reference: str, version: str = "latest") -> EnvironmentLock:
        """Return the lock of a version's build, with a URL for each wheel."""
        return self._hub.get(f"/environments/{reference}/versions/{version}/lock", EnvironmentLock)

    def download_locked(self, wheel: LockedWheel, folder: Path, progress: Progress | None = None) -> Path:
        """Download a wheel of a lock into `folder` and check its hash."""
        return self._blobs.download(wheel.url or "", folder / Path(wheel.filename).name, wheel.sha256, progress)

    def begin_push(self, owner: str, request: PushRequest) -> PushReply:
        """Announce a version and its files."""
        return self._hub.post(f"/environments/{owner}/{request.name}/pushes", request, PushReply, repeatable=True)

    def complete_push(self, owner: str, name: str, push_id: str) -> PushComplete:
        """Create the version after its files are uploaded."""
        path = f"/environments/{owner}/{name}/pushes/{push_id}/complete"
        return self._hub.post(path, None, PushComplete, repeatable=True)

    def push(
        self, owner: str, request: PushRequest, wheel: Path, sdist: Path, progress: Progress | None = None
    ) -> PushComplete:
        """Announce a version, upload the missing files and complete the push."""
        reply = self.begin_push(owner, request)
        by_hash = {blob.sha256: blob for blob in (LocalBlob.of(wheel), LocalBlob.of(sdist))}
        for upload in reply.missing:
            self._blobs.upload(upload, by_hash[upload.sha256], progress)
        return self.complete_push(owner, request.name, reply.push_id)
