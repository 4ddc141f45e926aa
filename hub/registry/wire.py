"""Converts registry rows to wire types, and builds the payload of builds."""

from __future__ import annotations

from contextlib import suppress

from django.conf import settings
from django.db.models import Q
from envhub.protocol.base import BlobRef
from envhub.protocol.models.catalog import EndpointTarget
from envhub.protocol.registry.builds import BuildPayload, EnvironmentLock, LockedWheel
from envhub.protocol.registry.needs import CheckSettings, Need, distinct
from envhub.protocol.registry.packages import (
    Check,
    EnvironmentView,
    GenerationEvidence,
    GitState,
    Origin,
    TriedRelease,
    VersionState,
    VersionView,
)
from envhub.protocol.runs import Failure
from envhub.protocol.visibility import Visibility

from hub.core.errors import Conflict, NotFound
from hub.registry.check_settings import settings_of
from hub.registry.models import Environment, StoredWheel, Version
from hub.registry.queries import Viewer, visible_environments
from hub.registry.row_images import images_needed
from hub.runs.box_hosts import is_allowed
from hub.runs.judges import judge_targets
from hub.runs.models import Run
from hub.secrets.services import names_of, reveal_for_run
from hub.storage.models import Blob
from hub.storage.services import presign_get


def environment_view(row: Environment, *, evaluations: int, forked_from: str | None = None) -> EnvironmentView:
    """Return an environment, whose `owner` and `latest` must be loaded. `evaluations` is the number that the reader may
    see (`registry.cards.evaluations_seen`), `forked_from` what they may know of the original."""
    latest = row.latest
    return EnvironmentView(
        id=str(row.pk),
        owner=row.owner.slug,
        name=row.name,
        description=row.description,
        visibility=Visibility(row.visibility),
        latest_version=latest.version if latest else None,
        latest_state=VersionState(latest.state) if latest else None,
        latest_needs=len(needs_of(latest)) if latest else 0,
        tags=tuple(row.tags),
        evaluations=evaluations,
        stars=row.stars,
        archived=row.archived,
        kind=row.kind,
        examples=row.examples,
        forked_from=forked_from,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def needs_of(row: Version) -> tuple[Need, ...]:
    """Return what its checks lack, without repetitions."""
    return distinct(Need.model_validate(need) for check in row.checks for need in check.get("needs", ()))


def version_view(row: Version, *, full: bool = True, inside: bool = True) -> VersionView:
    """Return a version; `full` adds what the build described (one more column to read).

    inside: for a member of the owner, who sees what the checks are given.
    """
    return VersionView(
        id=str(row.pk),
        owner=row.environment.owner.slug,
        name=row.environment.name,
        project=row.project,
        version=row.version,
        state=VersionState(row.state),
        yanked=row.yanked,
        yank_reason=row.yank_reason,
        summary=row.summary,
        changes=row.changes,
        requires_python=row.requires_python,
        dependencies=tuple(row.dependencies),
        license=row.license,
        generation=GenerationEvidence.model_validate(row.evidence) if row.evidence else None,
        git=GitState.model_validate(row.git) if row.git else None,
        origin=Origin.model_validate(row.origin) if full and row.origin else None,
        wheel_filename=row.wheel_filename,
        wheel_sha256=row.wheel_id,
        sdist_sha256=row.sdist_id,
        size=row.wheel.size + row.sdist.size,
        build_run_id=str(row.build_run_id) if row.build_run_id else None,
        checks=tuple(Check.model_validate(check) for check in row.checks),
        needs=distinct([*needs_of(row), *(images_needed(row) if full else ())]),
        granted=tuple(Need.model_validate(need) for need in row.granted),
        tried=tuple(TriedRelease.model_validate(one) for one in row.tried) if full else (),
        check_settings=settings_of(row) if full and inside else CheckSettings(),
        check_run_id=str(row.check_run_id) if row.check_run_id else None,
        describe=row.describe if full else None,
        lock_sha256=row.lock_sha256 or None,
        failure=Failure.model_validate(row.failure) if row.failure else None,
        eval_defaults=row.eval_config if full else {},
        created_at=row.created_at,
        created_by=row.created_by.username,
    )


def build_payload(run: Run) -> BuildPayload:
    """Return the payload of a build, or of checks alone. Raises NotFound if the version was deleted."""
    rows = Version.objects.select_related("environment__owner", "wheel", "sdist")
    version = rows.filter(Q(build_run=run) | Q(check_run=run)).first()
    if version is None:
        raise NotFound("the version was deleted")
    owner = version.environment.owner.slug
    base_url = str(settings.HUB.base_url).rstrip("/")
    given = settings_of(version)
    secrets = names_of(version.environment.owner, given.secrets)
    return BuildPayload(
        version_id=str(version.pk),
        owner=owner,
        name=version.project,
        version=version.version,
        module=version.module,
        requires_python=version.requires_python,
        wheel=_blob_ref(version.wheel, version.wheel_filename),
        wheel_filename=version.wheel_filename,
        sdist=_blob_ref(version.sdist, version.sdist_filename),
        evidence=GenerationEvidence.model_validate(version.evidence),
        dependencies=tuple(version.dependencies),
        owner_index_url=f"{base_url}/index/{owner}/simple/",
        stored_index_url=f"{base_url}/index/-/simple/",
        git_hosts=tuple(settings.HUB.git_hosts),
        git_mirrors=settings.HUB.git_mirrors,
        has_readme=bool(version.readme),
        settings=given.model_copy(update={"allow_hosts": tuple(filter(is_allowed, given.allow_hosts))}),
        secrets=reveal_for_run(version.environment.owner, secrets),
        judges=_judges(run, given),
        only_checks=version.check_run_id == run.pk,
        lock_is_open=version.is_lock_open,
        keeps_lock=version.origin is not None,
        tool_programs=tuple(version.programs),
        previous=lock_for_payload(version) if version.lock is not None else None,
    )


def _judges(run: Run, given: CheckSettings) -> dict[str, EndpointTarget]:
    """Return the judges whose models still exist; for the others, the checks report a need."""
    found: dict[str, EndpointTarget] = {}
    for asked, model in given.judges.items():
        with suppress(NotFound):
            found |= judge_targets(run.created_by, {asked: model}, run.owner_id)
    return found


def _blob_ref(blob: Blob, filename: str) -> BlobRef:
    return BlobRef(sha256=blob.pk, size=blob.size, url=presign_get(blob.pk, filename=filename))


def stored_wheel(row: StoredWheel) -> LockedWheel:
    """Return a wheel of the store with its presigned URL."""
    return LockedWheel(
        name=row.name,
        version=row.version,
        filename=row.filename,
        sha256=row.blob_id,
        size=row.blob.size,
        built_from_source=row.built_from_source,
        url=presign_get(row.blob_id, filename=row.filename),
    )


def lock_of(version: Version) -> EnvironmentLock:
    """Return the lock as stored, without URLs. Raises Conflict if the version was never built."""
    if version.lock is None:
        raise Conflict(
            f"version {version.version} has no lock yet",
            code="not_built",
            hint="wait for its build, or rebuild it",
        )
    return EnvironmentLock.model_validate(version.lock)


def lock_for_reader(version: Version, user: Viewer) -> EnvironmentLock:
    """Return the lock with presigned URLs, except for packages of its owner that the user may not see.

    Raises Conflict if the version was never built.
    """
    lock = lock_for_payload(version)
    owned = [wheel.sha256 for wheel in lock.wheels if wheel.owned]
    rows = Version.objects.filter(wheel__in=owned, environment__in=visible_environments(user))
    shown = set(rows.values_list("wheel_id", flat=True))
    wheels = (
        wheel if wheel.sha256 in shown or not wheel.owned else wheel.model_copy(update={"url": None})
        for wheel in lock.wheels
    )
    return lock.model_copy(update={"wheels": tuple(wheels)})


def lock_for_payload(version: Version) -> EnvironmentLock:
    """Return the lock with presigned URLs, for a worker's claim. Raises Conflict if the version was never built."""
    lock = lock_of(version)
    wheels = tuple(
        wheel.model_copy(update={"url": presign_get(wheel.sha256, filename=wheel.filename)}) for wheel in lock.wheels
    )
    return lock.model_copy(update={"wheels": wheels})
