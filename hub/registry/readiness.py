"""Checks whether a version can run with what a submission provides; evaluations and training ask before queueing."""

from __future__ import annotations

from collections.abc import Mapping

from envhub.protocol.registry.needs import (
    ANY,
    CheckSettings,
    Need,
    NeedKind,
    distinct,
    flag_for,
    toml_for,
    way_of_a_run,
)
from envhub.protocol.registry.packages import Check, VersionState

from hub.accounts.models import User
from hub.core.errors import Conflict
from hub.core.needs import Borrower, can_have, lends
from hub.registry.archived import require_not_archived
from hub.registry.check_settings import settings_of
from hub.registry.models import Version, VersionUse
from hub.registry.queries import visible_environments
from hub.registry.row_images import ChosenRows, require_images

FIELDS = {  # fields of an evaluation; other kinds of need concern the environment itself
    NeedKind.SECRET: "secrets",
    NeedKind.ARGUMENT: "env_args",
    NeedKind.HOST: "allow_hosts",
    NeedKind.JUDGE: "judges",
}
ENVIRONMENT = "environment"
MOST_USES = 100  # images of a version that are checked before a run
# Things that arguments commonly choose: another data set, server, agent or task, whose image is another. A run with
# arguments of its own may not need these, and fails with a clear error if it does.
BY_ARGUMENT = {
    *(NeedKind.DATA_SET, NeedKind.MODEL, NeedKind.CORPUS, NeedKind.FILE, NeedKind.HOST, NeedKind.JUDGE),
    *(NeedKind.CLONE_HOST, NeedKind.PROGRAM, NeedKind.SANDBOX),
}

NO_SANDBOXES = (NeedKind.SANDBOX, ANY)  # no image meets it


def require_runnable(
    version: Version,
    given: CheckSettings,
    borrower: Borrower,
    fields: Mapping[NeedKind, str] = FIELDS,
    rows: ChosenRows | None = None,
) -> None:
    """Raises Conflict, with what to do about it, if the version is hidden from `borrower` (now, who may have run it
    before), is archived, was not built, lacks something, uses what its owner does not lend, or does not load.

    fields: where the submission would provide each kind of need. rows: those it chooses, whose images it must have.
    """
    _require_visible(version, borrower.user)
    require_not_archived(version.environment)
    require_ready(version)
    if lacking := unmet_needs(version, given):
        raise _needs_unmet(version, lacking, fields)
    if kept := not_lent(version, given, borrower):
        owner, names = version.environment.owner.slug, ", ".join(need.name for need in kept)
        name = kept[0].name
        raise Conflict(
            f"{reference_of(version)} uses the image {names}, which {owner} keeps private",
            code="needs_unmet",
            hint=f"ask {owner}: `hub image set {name} --visibility public`; or add yours: `hub image add {name} TAR`",
            fields={ENVIRONMENT: f"needs the image {names}"},
        )
    if rows is not None and not given.argued_unlike(settings_of(version)):
        require_images(version, reference_of(version), rows, borrower, ENVIRONMENT)
    failed = next((check for check in _checks(version) if check.name == "load" and check.failed), None)
    if failed is not None and not given.loads_otherwise:
        name = reference_of(version)
        raise Conflict(
            f"{name} does not load: {failed.summary}",
            code="load_failed",
            hint=f"`hub env info {name}` says where: supply what it needs to load, or push a new version",
        )


def _require_visible(version: Version, user: User) -> None:
    environment = version.environment
    if not visible_environments(user).filter(pk=environment.pk).exists():
        raise Conflict(
            f"{reference_of(version)} is private now, and you are not a member of {environment.owner.slug}",
            code="environment_private",
            hint=f"ask {environment.owner.slug} to make it public or to invite you",
        )


def require_ready(version: Version) -> None:
    """Raises Conflict unless the version was built."""
    name = reference_of(version)
    if version.state == VersionState.BUILDING.value:
        hint = f"wait for its build (`hub run logs {version.build_run_id}`), then start again"
        raise Conflict(f"{name} is still being built", code="version_not_ready", hint=hint)
    if version.state == VersionState.INVALID.value:
        failure = version.failure or {}
        hint = failure.get("hint") or "correct the package and push a new version"
        message = failure.get("message") or "its build failed"
        raise Conflict(f"{name} cannot be used: {message}", code="version_invalid", hint=hint)


def require_built(version: Version) -> None:
    """Check as require_ready does, but accept a version that is being rebuilt, which keeps its lock meanwhile."""
    if version.state != VersionState.BUILDING.value or version.lock is None:
        require_ready(version)


def unmet_needs(version: Version, given: CheckSettings) -> tuple[Need, ...]:
    """Return what the checks lack, or had only by their settings, and neither the submission nor the hub provides."""
    known = known_needs(version)
    if version.lock is None:  # it could not even be installed without these
        return known
    if given.argued_unlike(settings_of(version)):
        known = tuple(need for need in known if need.kind not in BY_ARGUMENT or need.key == NO_SANDBOXES)
    owner_id = version.environment.owner_id
    return tuple(need for need in known if not given.meets(need) and not can_have(need, owner_id))


def not_lent(version: Version, given: CheckSettings, borrower: Borrower) -> tuple[Need, ...]:
    """Return what the version's checks used that its owner does not lend.

    With other arguments, it may not be needed.
    """
    owner_id = version.environment.owner_id
    if owner_id == borrower.owner_id or given.argued_unlike(settings_of(version)):
        return ()
    uses = VersionUse.objects.filter(version=version, kind=NeedKind.SANDBOX.value).order_by("name")[:MOST_USES]
    used = (Need(kind=NeedKind.SANDBOX, name=use.name) for use in uses)
    return tuple(need for need in used if not lends(need, owner_id, borrower))


def known_needs(version: Version) -> tuple[Need, ...]:
    """Return what the checks lacked, or had only by their settings, whether or not the hub has it now."""
    granted = (Need.model_validate(need) for need in version.granted)
    return distinct([*(need for check in _checks(version) for need in check.needs), *granted])


def reference_of(version: Version) -> str:
    """Return owner/name@version."""
    return f"{version.environment.owner.slug}/{version.environment.name}@{version.version}"


def _checks(version: Version) -> list[Check]:
    return [Check.model_validate(check) for check in version.checks]


def _needs_unmet(version: Version, lacking: tuple[Need, ...], places: Mapping[NeedKind, str]) -> Conflict:
    name = reference_of(version)
    hints = [f"{need.words}: {_way(need, name, places)}" for need in lacking]
    fields: dict[str, str] = {}
    for need in lacking:
        field = places.get(need.kind, ENVIRONMENT)
        fields[field] = f"{fields[field]}, {need.words}" if field in fields else f"needs {need.words}"
    words = ", ".join(need.words for need in lacking)
    return Conflict(f"{name} needs {words}", code="needs_unmet", hint="; ".join(hints), fields=fields)


def _way(need: Need, name: str, places: Mapping[NeedKind, str]) -> str:
    given = flag_for(need)
    if given and places is not FIELDS:
        given = f"{places[need.kind]} = {toml_for(need)}"
    return way_of_a_run(need, name, given)
