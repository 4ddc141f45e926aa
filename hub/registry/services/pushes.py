"""A push in two calls: `begin_push` says what to upload, `complete_push` reads it and makes the immutable version."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from envhub.protocol.base import Upload
from envhub.protocol.registry.builds import EnvironmentLock
from envhub.protocol.registry.packages import Origin, PushRequest
from envhub.protocol.visibility import Visibility
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    canonicalize_version,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion
from packaging.version import Version as Pep440

from hub.accounts.models import Owner, User
from hub.core.database_json import storable, storable_text
from hub.core.errors import Conflict, Invalid, TooLarge
from hub.registry.archived import require_not_archived
from hub.registry.inspection import Archives, Package, inspect
from hub.registry.models import Environment, Push, Version
from hub.registry.services.builds import start_build, update_version
from hub.registry.services.environments import SUMMARY_LENGTH, refresh_environment, search_text
from hub.registry.services.locks import lock_columns
from hub.registry.services.moves import environment_of_package, lock_addresses
from hub.runs.models import Run
from hub.storage.models import Blob
from hub.storage.services import confirm_blob, local_or_temp_path, prepare_uploads, store_bytes

_FILENAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,250}")
MB = 1024**2
KEEP_OPEN = timedelta(days=2)  # how long a push may still be completed


@dataclass(frozen=True)
class Begun:
    """What the client must upload; nothing if `unchanged`."""

    push: Push
    missing: tuple[Upload, ...]
    unchanged: bool


@dataclass(frozen=True)
class Completed:
    """The version with this content, whether this push created it, and the run that builds it."""

    version: Version
    created: bool
    build: Run | None


@dataclass(frozen=True)
class Pushed:
    """The uploaded files, read and verified against what was announced."""

    request: PushRequest
    package: Package
    wheel: Blob
    sdist: Blob


@dataclass(frozen=True)
class Carried:
    """What a bundle contains besides the archives: the lock that the version was built with, and where it was built."""

    lock: EnvironmentLock
    origin: Origin

    def columns(self) -> dict[str, Any]:
        """Return the columns of a version that store it."""
        return {**lock_columns(self.lock), "origin": storable(self.origin.model_dump(mode="json"))}


def begin_push(*, owner: Owner, user: User, request: PushRequest) -> Begun:
    """Check what can be checked without the bytes. Raises Invalid, TooLarge, Conflict (archived)."""
    _check_files(request)
    if (environment := environment_of_package(owner, request.name)) is not None:
        require_not_archived(environment)
    Push.objects.filter(owner=owner, created_at__lt=timezone.now() - KEEP_OPEN).delete()
    same = published(owner, request.name, request.version)
    unchanged = same is not None and (same.wheel_id, same.sdist_id) == (request.wheel.sha256, request.sdist.sha256)
    if same is not None and unchanged:
        apply_to_published(same, visibility=request.visibility, message=request.message)
    files = {(file.sha256, file.size) for file in (request.wheel, request.sdist)}
    push = Push.objects.create(
        owner=owner,
        name=canonicalize_name(request.name),
        request=request.model_dump(mode="json"),
        created_by=user,
        version=same if unchanged else None,
    )
    return Begun(push, () if unchanged else tuple(prepare_uploads(sorted(files), holder=owner.pk)), unchanged)


def complete_push(*, push: Push) -> Completed:
    """Verify, read and publish what was uploaded. Completing again returns the same version.

    Raises Invalid or TooLarge (what `inspect` refuses, `name_mismatch`, missing or wrong bytes),
    Conflict (`version_exists`: this version exists with other content).
    """
    if push.version is not None:
        return Completed(push.version, created=push.made_it, build=push.version.build_run if push.made_it else None)
    return publish(push=push, pushed=read_push(push=push))


def read_push(*, push: Push) -> Pushed:
    """Verify and read what was uploaded, without publishing it. Raises as `complete_push`."""
    request = PushRequest.model_validate(push.request)
    wheel, sdist = (
        confirm_blob(file.sha256, file.size, holder=push.owner_id) for file in (request.wheel, request.sdist)
    )
    with local_or_temp_path(wheel.pk) as wheel_path, local_or_temp_path(sdist.pk) as sdist_path:
        archives = Archives(wheel_path, request.wheel.filename, sdist_path, request.sdist.filename)
        package = inspect(archives)
    _check_agrees(request, package)
    return Pushed(request, package, wheel, sdist)


def publish(*, push: Push, pushed: Pushed, carried: Carried | None = None) -> Completed:
    """Create the version, or return the existing one with this content. Raises Conflict (`version_exists`)."""
    completed = _publish(push, pushed, carried)
    made = {"made_it": True} if completed.created else {}
    Push.objects.filter(pk=push.pk).update(version=completed.version, **made)
    return completed


def _publish(push: Push, pushed: Pushed, carried: Carried | None) -> Completed:
    """Create the version.

    The unique constraint decides between concurrent pushes; the loser is compared with the winner.
    """
    package = pushed.package
    existing = published(push.owner, push.name, package.version)
    if existing is not None:
        return _same_or_conflict(existing, push, pushed, carried)
    metadata = store_bytes(package.metadata.raw)
    try:
        with transaction.atomic():
            environment = _environment_of(push, pushed.request)
            version = _create_version(environment, push, pushed, metadata, carried)
            refresh_environment(environment)
            build = start_build(version=version, user=push.created_by)
    except IntegrityError:
        existing = published(push.owner, push.name, package.version)
        if existing is None:
            raise
        return _same_or_conflict(existing, push, pushed, carried)
    return Completed(version, created=True, build=build)


def _environment_of(push: Push, request: PushRequest) -> Environment:
    visibility = Visibility(request.visibility or Visibility.PUBLIC)
    environment, made = ensure_environment(owner=push.owner, name=push.name, visibility=visibility)
    if not made:
        require_not_archived(environment)
        set_visibility(environment, request.visibility)
    return environment


def ensure_environment(*, owner: Owner, name: str, visibility: Visibility) -> tuple[Environment, bool]:
    """Return the environment of a package with this (normalised) name, and whether it was created, without a version.

    Call it inside a transaction.
    """
    lock_addresses(owner)  # so that it cannot be transferred before its version exists
    environment = environment_of_package(owner, name)
    if environment is not None:
        return environment, False
    words = search_text(owner, name, "", [])
    row = Environment.objects.create(owner=owner, name=name, visibility=visibility.value, search_text=words)
    return row, True


def set_visibility(environment: Environment, wanted: Visibility | None) -> None:
    """Apply the visibility of a push to an existing environment, even if the content is unchanged."""
    if wanted is not None and environment.visibility != wanted.value:
        changes = {"visibility": wanted.value, "updated_at": timezone.now(), "card_stale": True}
        Environment.objects.filter(pk=environment.pk).update(**changes)
        environment.visibility = wanted.value


def apply_to_published(version: Version, *, visibility: Visibility | None, message: str | None) -> None:
    """Apply a push whose content is already published: its visibility, and its message on what is new."""
    set_visibility(version.environment, visibility)
    if (changes := storable_text((message or "").strip())) and version.changes != changes:
        update_version(version, changes=changes)


def _create_version(
    environment: Environment, push: Push, pushed: Pushed, metadata: Blob, carried: Carried | None
) -> Version:
    request, package = pushed.request, pushed.package
    return Version.objects.create(
        environment=environment,
        version=package.version,
        canonical=canonicalize_version(package.version),
        wheel=pushed.wheel,
        wheel_filename=request.wheel.filename,
        sdist=pushed.sdist,
        sdist_filename=request.sdist.filename,
        metadata=metadata,
        content_digest=package.content_digest,
        summary=storable_text(package.metadata.summary)[:SUMMARY_LENGTH],
        requires_python=package.metadata.requires_python,
        license=storable_text(package.metadata.license)[:255],
        dependencies=storable(package.metadata.dependencies),
        module=package.module,
        tags=storable(package.tags),
        readme=storable_text(package.readme),
        changes=storable_text((request.message or "").strip() or package.changes),
        files=storable(package.files),
        eval_config=storable(package.eval_config),
        hub_config=storable(package.hub_config),
        programs=list(package.programs),
        evidence=storable(package.evidence.model_dump(mode="json")),
        git=storable(request.git.model_dump(mode="json")) if request.git else None,
        created_by=push.created_by,
        **(carried.columns() if carried else {}),
    )


def published(owner: Owner, name: str, version: str) -> Version | None:
    """Return this version of a package, if the owner has published it."""
    rows = Version.objects.select_related("environment__owner", "wheel", "sdist", "created_by")
    environment = environment_of_package(owner, name)
    return (
        rows.filter(environment=environment, canonical=canonicalize_version(version)).first() if environment else None
    )


def _same_or_conflict(existing: Version, push: Push, pushed: Pushed, carried: Carried | None) -> Completed:
    if existing.content_digest == pushed.package.content_digest:
        apply_to_published(existing, visibility=pushed.request.visibility, message=pushed.request.message)
        build = _build_with(existing, push, carried) if carried is not None and existing.lock is None else None
        return Completed(existing, created=False, build=build)
    raise Conflict(
        f"version {existing.version} already exists with other content",
        code="version_exists",
        hint="versions never change: increase it in pyproject.toml, or push with --bump patch (or minor, or major)",
    )


def _build_with(existing: Version, push: Push, carried: Carried) -> Run:
    """Build a version, which failed to build before (for lack of an index, say), with the lock from a bundle."""
    with transaction.atomic():
        update_version(existing, **carried.columns())
        return start_build(version=existing, user=push.created_by)


def _check_agrees(request: PushRequest, package: Package) -> None:
    """Refuse a request that contradicts its archives."""
    found = (package.metadata.name, canonicalize_version(package.version))
    if found != (canonicalize_name(request.name), canonicalize_version(request.version)):
        message = f"the package is {package.metadata.name} {package.version}, not {request.name} {request.version}"
        raise Invalid(message, code="name_mismatch")


def _check_files(request: PushRequest) -> None:
    """Check sizes and names before anything is uploaded."""
    limit = settings.HUB.max_push_mb * MB
    for file in (request.wheel, request.sdist):
        if file.size > limit:
            raise TooLarge(
                f"{file.filename} has {file.size / MB:.0f} MB, more than the allowed {settings.HUB.max_push_mb}",
                hint="remove data from the package: `hub data add` stores data sets for load_dataset inside boxes",
            )
        if file.size <= 0 or not _FILENAME.fullmatch(file.filename):
            raise Invalid(f"{file.filename[:80]!r} is not a distribution file", fields={"filename": file.filename[:80]})
    try:
        wanted = (canonicalize_name(request.name), Pep440(request.version))
        wheel, sdist = parse_wheel_filename(request.wheel.filename)[:2], parse_sdist_filename(request.sdist.filename)
    except (InvalidVersion, InvalidWheelFilename, InvalidSdistFilename) as error:
        raise Invalid(str(error), code="bad_filename") from error
    if not wanted == wheel == sdist or not request.sdist.filename.endswith(".tar.gz"):
        message = f"{request.wheel.filename} and {request.sdist.filename} are not {request.name} {request.version}"
        raise Invalid(message, code="name_mismatch", hint="push one wheel and one .tar.gz sdist of the same version")
