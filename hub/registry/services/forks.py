"""Forks: an environment that begins as one version of another, under an owner of the user who forks it.

The files are the same bytes, charged to both owners. The lock is not copied, because it may contain packages of the
original's owner that this user may not see; so a fork is built anew, and survives the deletion of the original.
"""

from __future__ import annotations

from django.db import IntegrityError, transaction
from envhub.protocol.registry.packages import VersionState
from envhub.protocol.visibility import Visibility
from packaging.utils import canonicalize_name

from hub.accounts.models import Owner, Role, User
from hub.accounts.queries import require_role
from hub.core.errors import Conflict
from hub.registry.models import Environment, Fork, FormerName, Version
from hub.registry.services.builds import start_build
from hub.registry.services.environments import refresh_environment, search_text
from hub.registry.services.moves import lock_addresses
from hub.storage.services import hold_blobs

# What was pushed. A version's other fields are findings of a build, or settings that name the owner's secrets.
PUSHED = (
    *("version", "canonical", "wheel", "wheel_filename", "sdist", "sdist_filename", "metadata", "content_digest"),
    *("summary", "requires_python", "license", "dependencies", "module", "tags", "readme", "changes", "files"),
    *("eval_config", "hub_config", "programs", "evidence", "git"),
)


def fork_environment(
    *, user: User, version: Version, owner: Owner, name: str = "", visibility: Visibility | None = None
) -> Environment:
    """Create `owner`/`name` with that version, which the user may see, and build it.

    The visibility defaults to the original's. Raises NotAllowed, Conflict (`name_taken`, `too_many_queued`),
    QuotaExceeded.
    """
    require_role(user, owner, Role.MEMBER)
    name = canonicalize_name(name) or version.environment.name
    try:
        with transaction.atomic():
            lock_addresses(owner)
            for address in dict.fromkeys((name, version.project)):
                _require_free(owner, address, version.project)
            return _fork(user, version, owner, name, visibility)
    except IntegrityError as error:
        raise _taken(owner, name, version.project) from error


def _fork(user: User, version: Version, owner: Owner, name: str, visibility: Visibility | None) -> Environment:
    origin = version.environment
    row = Environment.objects.create(
        owner=owner,
        name=name,
        visibility=visibility.value if visibility else origin.visibility,
        description=origin.description,
        own_tags=origin.own_tags,
        search_text=search_text(owner, name, origin.description, []),
    )
    reference = f"{origin.owner.slug}/{origin.name}@{version.version}"
    Fork.objects.create(environment=row, origin=origin, reference=reference)
    if version.project != name:  # installers, and pushes of the package, use that name
        FormerName.objects.create(environment=row, owner=owner, name=version.project)
    hold_blobs({version.wheel_id, version.sdist_id}, holder=owner.pk)
    same = {field: getattr(version, field) for field in PUSHED}
    made = Version.objects.create(environment=row, created_by=user, state=VersionState.BUILDING.value, **same)
    row = refresh_environment(row)
    start_build(version=made, user=user)
    return row


def _require_free(owner: Owner, name: str, project: str) -> None:
    known = Environment.objects.filter(owner=owner, name=name).exists()
    if known or FormerName.objects.filter(owner=owner, name=name).exists():
        raise _taken(owner, name, project)


def _taken(owner: Owner, name: str, project: str) -> Conflict:
    hint = "choose another name"
    if name == project:  # pushes of the package go there, whatever the fork is called
        hint = "fork it for another owner: an owner can have only one environment for each package"
    return Conflict(f"{owner.slug}/{name} already exists", code="name_taken", hint=hint)
