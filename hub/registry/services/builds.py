"""Builds of versions: starting them, following their run, keeping what the worker reports."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from envhub.protocol.base import JsonObject
from envhub.protocol.builds import BuildReport, EnvironmentLock
from envhub.protocol.packages import GenerationEvidence, VersionState
from envhub.protocol.runs import Failure, FailureKind, RunKind, RunState

from hub.accounts.models import User
from hub.core.errors import Conflict, NotFound, TooLarge
from hub.core.storable import storable
from hub.registry.models import Environment, Version
from hub.registry.services.wheels import is_shared, store_lock_wheels
from hub.runs.models import Run
from hub.runs.services import create_run, request_cancel

REPORT_LIMIT = 4 * 1024 * 1024  # characters of JSON that one part of a report may have
_NOT_ITS_FAULT = {FailureKind.INFRASTRUCTURE, FailureKind.CANCELLED}
_NO_REPORT = Failure(
    kind=FailureKind.INFRASTRUCTURE,
    code="no_build_report",
    message="the build ended without a report",
    hint="start it again; if this repeats, look at the worker's log",
)


def start_build(*, version: Version, user: User) -> Run:
    """Queue a build of the version. What an earlier build found stays until this one reports."""
    environment = version.environment
    subject = f"{environment.owner.slug}/{environment.name}"
    with transaction.atomic():
        run = create_run(
            kind=RunKind.BUILD,
            owner=environment.owner,
            created_by=user,
            subject=f"{subject}@{version.version}",
            subject_url=f"/environments/{subject}/versions/{version.version}",
        )
        _update(version, build_run=run, state=VersionState.BUILDING.value, failure=None)
    return run


def rebuild_version(*, version: Version, user: User) -> Run:
    """Build again. Raises Conflict (`already_building`) while a build waits or runs."""
    with transaction.atomic():
        Environment.objects.select_for_update().get(pk=version.environment_id)  # two rebuilds take turns
        current = Run.objects.filter(pk__in=Version.objects.filter(pk=version.pk).values("build_run_id")).first()
        if current is not None and not RunState(current.state).is_final:
            raise Conflict("this version is being built already", code="already_building", hint=f"run {current.pk}")
        return start_build(version=version, user=user)


def cancel_builds(versions: QuerySet[Version]) -> None:
    """Ask the waiting and running builds of these versions to end: they are about to be deleted."""
    final = [state.value for state in RunState if state.is_final]
    for run in Run.objects.filter(pk__in=versions.values("build_run_id")).exclude(state__in=final):
        request_cancel(run=run)


def follow_build(run: Run, old: RunState, new: RunState) -> None:
    """The build's run has moved: a final state decides what its version is. Shares the move's transaction."""
    version = Version.objects.filter(build_run=run).select_related("environment").first()
    if version is None or not new.is_final:
        return
    built = version.lock is not None
    failure = Failure.model_validate(run.failure) if run.failure else None
    if new is RunState.SUCCEEDED:
        failure = Failure.model_validate(version.failure) if version.failure else None if built else _NO_REPORT
    usable = failure is None or (built and failure.kind in _NOT_ITS_FAULT)
    state = VersionState.READY if usable else VersionState.INVALID
    _update(version, state=state.value, failure=failure.model_dump(mode="json") if failure and not usable else None)


def store_build_report(*, run: Run, report: BuildReport) -> Version:
    """Keep what a build found. Said again it changes nothing.

    Raises NotFound (the version was deleted or is built by another run), Invalid (wheels of the lock are not there).
    """
    with transaction.atomic():
        version = Version.objects.select_related("environment").filter(build_run=run).first()
        if version is None:
            raise NotFound("this run builds no version any more")
        changes: dict[str, Any] = {
            "checks": storable([check.model_dump(mode="json") for check in report.checks]),
            "build_seconds": storable(report.seconds),
            "failure": storable(report.failure.model_dump(mode="json")) if report.failure else None,
            "evidence": _evidence(version, report),
        }
        for part in ("describe", "scripted_rollout"):
            changes |= {part: _bounded(part, getattr(report, part))} if getattr(report, part) is not None else {}
        if report.lock is not None and report.failure is None:
            store_lock_wheels(lock=report.lock, shared=is_shared(run), holder=run.owner_id)
            lock = _without_urls(report.lock)
            changes |= {"lock": lock, "lock_sha256": _digest(lock)}
        _update(version, **changes)
    return version


def _update(version: Version, **changes: Any) -> None:
    Version.objects.filter(pk=version.pk).update(**changes)
    Environment.objects.filter(pk=version.environment_id).update(updated_at=timezone.now())
    for name, value in changes.items():
        setattr(version, name, value)


def _evidence(version: Version, report: BuildReport) -> JsonObject | None:
    """What push found stands; where it found nothing, the build's answer is written down as such."""
    if report.generation is None or version.evidence is None or version.evidence.get("generation"):
        return version.evidence
    known = GenerationEvidence.model_validate(version.evidence)
    reasons = (*known.reasons, f"the build loaded it with verifiers {report.verifiers}")
    return known.model_copy(update={"generation": report.generation, "reasons": reasons}).model_dump(mode="json")


def _without_urls(lock: EnvironmentLock) -> JsonObject:
    wheels = tuple(wheel.model_copy(update={"url": None}) for wheel in lock.wheels)
    return lock.model_copy(update={"wheels": wheels}).model_dump(mode="json")


def _digest(lock: JsonObject) -> str:
    return hashlib.sha256(json.dumps(lock, sort_keys=True).encode()).hexdigest()


def _bounded(part: str, value: JsonObject) -> JsonObject:
    kept: JsonObject = storable(value)
    if len(json.dumps(kept)) > REPORT_LIMIT:
        raise TooLarge(f"the report's {part} is larger than {REPORT_LIMIT} characters")
    return kept
