"""Reads of the registry, all limited to what the requesting user may see."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import TypeAlias

from django.contrib.auth.models import AnonymousUser
from django.db import models
from envhub.protocol.registry.needs import NeedKind
from envhub.protocol.visibility import Visibility
from packaging.utils import canonicalize_name, canonicalize_version
from packaging.version import Version as Pep440

from hub.accounts.models import Owner, Role, User
from hub.accounts.queries import has_role, member_owners, owner_ids, visible_owner_ids
from hub.core.errors import Invalid, NotFound
from hub.registry.models import HEAVY_VERSION_FIELDS, Environment, Fork, FormerName, Push, Version, VersionUse

Viewer: TypeAlias = User | AnonymousUser
LATEST = "latest"
MOST_USES = 1000
_REFERENCE = re.compile(r"^(?P<owner>[^/@\s]+)/(?P<name>[^/@\s]+)(?:@(?P<version>[^/@\s]+))?$")


def visible_environments(user: Viewer) -> models.QuerySet[Environment]:
    """Return what the user may see: all public environments, and the private ones of owners they are a member of."""
    public = models.Q(visibility=Visibility.PUBLIC.value)
    return Environment.objects.filter(public | models.Q(owner_id__in=visible_owner_ids(user)))


def visible_to_owner(owner_id: uuid.UUID) -> models.QuerySet[Environment]:
    """Return what a build of this owner may install from: all public environments, and the owner's own."""
    return Environment.objects.filter(models.Q(visibility=Visibility.PUBLIC.value) | models.Q(owner_id=owner_id))


def search_environments(user: Viewer, *, search: str = "", owner: str = "") -> models.QuerySet[Environment]:
    """Return visible environments for a list, each with its latest version (slim). Every word must occur somewhere."""
    rows = visible_environments(user).select_related("owner", "latest")
    rows = rows.defer(*(f"latest__{name}" for name in HEAVY_VERSION_FIELDS))
    if owner:
        rows = rows.filter(owner_id__in=owner_ids(owner))
    for word in search.lower().split()[:8]:
        rows = rows.filter(search_text__contains=word)
    return rows


def environments_of(user: User) -> models.QuerySet[Environment]:
    """Return the environments of owners that the user is a member of (for administrators too, only these)."""
    mine = member_owners(user, Role.READER).order_by().values("pk")
    return search_environments(user).filter(owner_id__in=mine)


def get_environment(user: Viewer, owner: str, name: str) -> Environment:
    """Return one environment by its current or a former name, with its owner and latest version.

    Raises NotFound if it is absent or not visible.
    """
    found = at_address(visible_environments(user).select_related("owner", "latest", "fork"), owner, name)
    if found is None:
        raise NotFound(f"no environment {owner}/{name}")
    return found


@dataclass(frozen=True)
class ForkOrigin:
    """What a viewer may know about the original of a fork. `environment` is None if it has been deleted."""

    reference: str  # owner/name@version, as it is called now
    environment: Environment | None


def fork_origin(user: Viewer, environment: Environment) -> ForkOrigin | None:
    """Return what it was forked from; None if it is not a fork, or the user may not see the original."""
    fork: Fork | None = getattr(environment, "fork", None)  # no attribute if it is not a fork
    if fork is None:
        return None
    if fork.origin_id is None:  # the original was deleted, so who could see it is no longer known
        return ForkOrigin(fork.reference, None) if has_role(user, environment.owner, Role.READER) else None
    origin = visible_environments(user).select_related("owner").filter(pk=fork.origin_id).first()
    if origin is None:
        return None
    version = fork.reference.rpartition("@")[2]
    return ForkOrigin(f"{origin.owner.slug}/{origin.name}@{version}", origin)


def forks_of(user: Viewer, environment: Environment) -> models.QuerySet[Environment]:
    """Return the forks of an environment that the user may see, for a list."""
    return search_environments(user).filter(fork__origin=environment)


def dependants_of(user: Viewer, environment: Environment) -> models.QuerySet[Environment]:
    """Return the environments that the user may see whose latest version is locked with a package of this one."""
    return visible_environments(user).filter(depends_on=environment).select_related("owner").order_by("-pk")


def packages_in(version: Version | None) -> models.QuerySet[Environment]:
    """Return the other environments of this hub whose wheels a version's lock has."""
    wheels = (version.lock or {}).get("wheels", ()) if version is not None else ()
    owned = [wheel["sha256"] for wheel in wheels if wheel.get("owned")]
    if version is None or not owned:
        return Environment.objects.none()
    holding = Version.objects.filter(wheel__in=owned).order_by().values("environment")
    return Environment.objects.filter(pk__in=holding).exclude(pk=version.environment_id)


@dataclass(frozen=True)
class DataUse:
    """Environments whose checks have loaded a data set, as (owner, name), the newest uses first."""

    environments: tuple[tuple[str, str], ...] = ()
    capped: bool = False  # there may be more


def users_of_data(repositories: set[str]) -> dict[str, DataUse]:
    """Return, by name, the uses of these stored repositories. Only the newest MOST_USES of all their uses are read."""
    kinds = [NeedKind.DATA_SET.value, NeedKind.MODEL.value]
    rows = VersionUse.objects.filter(kind__in=kinds, name__in=repositories).order_by("-pk")
    fields = ("name", "version__environment__owner__slug", "version__environment__name")
    read = list(rows.values_list(*fields)[:MOST_USES])
    found: dict[str, dict[tuple[str, str], None]] = {}
    for name, owner, environment in read:
        found.setdefault(name, {})[owner, environment] = None
    return {name: DataUse(tuple(users), capped=len(read) == MOST_USES) for name, users in found.items()}


def at_address(rows: models.QuerySet[Environment], owner: str, name: str) -> Environment | None:
    """Return the environment in `rows` that is, or else was, called owner/name."""
    name = canonicalize_name(name)
    found = rows.filter(owner__slug=owner, name=name).first()
    return found or rows.filter(former_names__owner__slug=owner, former_names__name=name).first()


def get_former_name(user: Viewer, owner: str, name: str) -> FormerName:
    """Return a former address of an environment that the user may see, or of one of their owners. Raises NotFound."""
    rows = FormerName.objects.select_related("owner", "environment__owner")
    mine = models.Q(owner__in=visible_owner_ids(user)) | models.Q(environment__in=visible_environments(user))
    found = rows.filter(mine, owner__slug=owner, name=canonicalize_name(name)).first()
    if found is None:
        raise NotFound(f"{owner}/{name} is not a former address of an environment")
    return found


def environment_versions(environment: Environment) -> models.QuerySet[Version]:
    """Return the versions of an environment without their heavy fields, for lists."""
    rows = Version.objects.filter(environment=environment).select_related("wheel", "sdist", "created_by")
    return rows.select_related("environment__owner").defer(*HEAVY_VERSION_FIELDS)


def get_version_of(environment: Environment, version: str) -> Version:
    """Return one version of an environment ("latest" allowed). Raises NotFound."""
    name = f"{environment.owner.slug}/{environment.name}"
    rows = Version.objects.select_related("environment__owner", "wheel", "sdist", "created_by")
    if version == LATEST:
        found = rows.filter(pk=environment.latest_id).first() if environment.latest_id else None
        if found is None:
            hint = f"A yanked version still runs by its number, {name}@VERSION; `hub env versions {name}` lists them."
            raise NotFound(f"{name} has only yanked versions", hint=hint)
        return found
    found = rows.filter(environment=environment, canonical=canonical(version)).first()
    if found is None:
        raise NotFound(f"no version {version} of {name}", hint=f"`hub env versions {name}` lists them")
    return found


def version_with_owner(pk: uuid.UUID) -> Version:
    """Return a version by key, with everything that its view shows."""
    return Version.objects.select_related("environment__owner", "wheel", "sdist", "created_by").get(pk=pk)


def get_push(owner: Owner, name: str, push_id: uuid.UUID) -> Push:
    """Return a push with its version, if it has made one. Raises NotFound."""
    rows = Push.objects.filter(owner=owner, name=canonicalize_name(name))
    related = ("owner", "created_by", "version__environment__owner", "version__build_run")
    found = rows.select_related(*related, "version__wheel", "version__sdist", "version__created_by").filter(pk=push_id)
    push = found.first()
    if push is None:
        raise NotFound("the push does not exist", hint="start it again")
    return push


def get_version(user: Viewer, reference: str) -> Version:
    """Return the version named `owner/name[@version]`. Raises Invalid (malformed), NotFound (absent or not visible)."""
    owner, name, version = split_reference(reference)
    return get_version_of(get_environment(user, owner, name), version)


def split_reference(reference: str) -> tuple[str, str, str]:
    """Split `owner/name[@version]` into its parts; the version defaults to "latest". Raises Invalid."""
    match = _REFERENCE.match(reference)
    if match is None:
        raise Invalid(f"{reference!r} is not owner/name or owner/name@version", fields={"environment": reference})
    return match["owner"], match["name"], match["version"] or LATEST


def canonical(version: str) -> str:
    """Return the form in which equal versions are equal strings. Raises NotFound if it is not a version."""
    try:
        return canonicalize_version(Pep440(version))
    except ValueError as error:  # InvalidVersion, or a number with more digits than Python parses
        raise NotFound(f"{version[:100]!r} is not a version") from error


def newest(versions: list[Version]) -> Version | None:
    """Return the newest version that is not yanked, as pip would choose: final releases before pre-releases."""
    candidates = [(Pep440(item.version), item) for item in versions if not item.yanked]
    finals = [pair for pair in candidates if not pair[0].is_prerelease]
    return max(finals or candidates, key=lambda pair: pair[0], default=(None, None))[1]
