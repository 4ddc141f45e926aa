"""Builds of versions: starting them, and following their runs and those that only repeat checks."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from envhub.protocol.registry.packages import VersionState
from envhub.protocol.runs import Failure, FailureKind, RunKind, RunState

from hub.accounts.models import User
from hub.core.errors import Conflict
from hub.registry.archived import require_not_archived
from hub.registry.models import Again, Environment, Version
from hub.runs.models import Run
from hub.runs.services import cancel_if_open, create_run, start_now

MINUTE = timedelta(minutes=1)
SOONEST, LATEST = 15 * MINUTE, timedelta(days=1)
TRIAL = frozenset({"load", "describe", "images", "scripted-rollout"})  # the checks that try the installed package
_NOT_ITS_FAULT = {FailureKind.INFRASTRUCTURE, FailureKind.CANCELLED}
_NO_REPORT = Failure(
    kind=FailureKind.INFRASTRUCTURE,
    code="no_build_report",
    message="the build ended without a report",
    hint="start it again; if this happens again, check the worker's log",
)


def start_build(*, version: Version, user: User, limited: bool = True) -> Run:
    """Queue a build of the version. The findings of an earlier build stay until this one reports.

    Running checks of the lock that it replaces are cancelled.
    """
    with transaction.atomic():
        checking = Run.objects.filter(pk__in=Version.objects.filter(pk=version.pk).values("check_run_id")).first()
        run = queue_run(version, user, limited=limited)
        state = VersionState.BUILDING.value
        update_version(version, build_run=run, check_run=None, state=state, failure=None, check_again=Again.NO)
        if checking is not None and not RunState(checking.state).is_final:
            transaction.on_commit(partial(cancel_if_open, run=checking), robust=True)
    return run


def queue_run(
    version: Version, user: User, *, note: str = "", not_before: datetime | None = None, limited: bool = True
) -> Run:
    """Create a run of kind build for the version, without changing the version yet."""
    environment = version.environment
    subject = f"{environment.owner.slug}/{environment.name}"
    return create_run(
        kind=RunKind.BUILD,
        owner=environment.owner,
        created_by=user,
        subject=f"{subject}@{version.version}{note}",
        subject_url=f"/environments/{subject}/versions/{version.version}",
        not_before=not_before,
        limited=limited,
    )


def rebuild_version(*, version: Version, user: User) -> Run:
    """Build again, at once. Raises Conflict (`already_building`) while a build is waiting or running, `archived`."""
    require_not_archived(version.environment)
    with transaction.atomic():
        lock_environment(version)
        current = Run.objects.filter(pk__in=Version.objects.filter(pk=version.pk).values("build_run_id")).first()
        if current is not None and not RunState(current.state).is_final:
            if start_now(run=current):
                return current
            raise Conflict("this version is already being built", code="already_building", hint=f"run {current.pk}")
        return start_build(version=version, user=user)


def cancel_builds(versions: QuerySet[Version]) -> None:
    """Cancel the waiting and running builds and checks of these versions once they have been deleted.

    Call it in the transaction that deletes them.
    """
    final = [state.value for state in RunState if state.is_final]
    of_them = Q(pk__in=versions.values("build_run_id")) | Q(pk__in=versions.values("check_run_id"))
    for run in Run.objects.filter(of_them).exclude(state__in=final):
        transaction.on_commit(partial(cancel_if_open, run=run), robust=True)


def settle_build(version: Version, run: Run, new: RunState) -> None:
    """Set the version's state when its build has ended.

    A version that only lacks something it needs to be installed, such as a host to fetch from, is not invalid; its
    checks say what it lacks.
    """
    failure = _why_invalid(version, run, new)
    if new is RunState.FAILED and failure is not None and failure.kind is FailureKind.INFRASTRUCTURE:
        _build_later(version, run, failure)
        return
    state = VersionState.READY if failure is None else VersionState.INVALID
    update_version(version, state=state.value, failure=failure.model_dump(mode="json") if failure else None)


def _build_later(version: Version, run: Run, failure: Failure) -> None:
    """Queue another build, since an unavailable index does not make a package invalid. The wait grows with its age."""
    now = timezone.now()
    wait = min(max(now - version.created_at, SOONEST), LATEST)
    later = queue_run(version, run.created_by, not_before=now + wait, limited=False)
    name = f"{version.environment.owner.slug}/{version.environment.name}@{version.version}"
    at = f"{now + wait:%Y-%m-%d %H:%M} UTC"
    hint = f"{failure.hint} The hub will retry at {at}; `hub env rebuild {name}` retries now."
    told = failure.model_copy(update={"hint": hint.strip()}).model_dump(mode="json")
    update_version(version, build_run=later, state=VersionState.BUILDING.value, failure=told)


def _why_invalid(version: Version, run: Run, new: RunState) -> Failure | None:
    built = version.lock is not None
    if any(check.get("needs") for check in version.checks if not built or check.get("name") not in TRIAL):
        return None
    if new is RunState.SUCCEEDED:
        reported = Failure.model_validate(version.failure) if version.failure else None
        return reported if built or reported else _NO_REPORT
    failure = Failure.model_validate(run.failure) if run.failure else _NO_REPORT
    return None if built and failure.kind in _NOT_ITS_FAULT else failure


def version_of(run: Run) -> Version | None:
    """Return the version that a run builds or checks, with its environment locked so that changes are serialized."""
    rows = Version.objects.filter(Q(build_run=run) | Q(check_run=run))
    found = rows.select_related("environment").first()
    if found is None:
        return None
    lock_environment(found)
    return rows.select_related("environment__owner", "created_by", "check_run", "build_run").first()


def lock_environment(version: Version) -> None:
    """Lock the version's environment until the transaction ends, and reload it: its owner may have changed."""
    rows = Environment.objects.select_for_update(of=("self",)).select_related("owner")
    if (row := rows.filter(pk=version.environment_id).first()) is not None:
        version.environment = row


def update_version(version: Version, **changes: Any) -> None:
    """Write only these fields, and mark the environment as changed for the index and the pages."""
    Version.objects.filter(pk=version.pk).update(**changes)
    Environment.objects.filter(pk=version.environment_id).update(updated_at=timezone.now(), card_stale=True)
    for name, value in changes.items():
        setattr(version, name, value)
