"""The hub's own store of the wheels that locks are made of, and of wheels that were built from sources.

They are shared between all owners only when the worker serves all owners: one that its token restricts to some is
trusted by these alone, and could otherwise slip a wheel of its own into everybody's builds.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db import transaction
from envhub.protocol.registry.builds import EnvironmentLock, LockedWheel
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion
from packaging.version import Version as Pep440

from hub.core.errors import Invalid
from hub.registry.models import SourceBuild, StoredWheel, Version
from hub.runs.models import Run
from hub.storage.services import EVERYBODY, confirm_blob, held_sizes, share_blobs


def is_shared(run: Run) -> bool:
    """Whether what this run's worker hands in is for everybody."""
    return run.worker is not None and not run.worker.token.owners.exists()


def store_lock_wheels(*, lock: EnvironmentLock, shared: bool, holder: UUID) -> None:
    """Keep the wheels of a lock of `holder`. Raises Invalid when the bytes of one are missing or its name is wrong.

    The wheels of environments are left out: they are kept with their version, visible to whoever may see that. The
    version may be deleted while the build runs, and its bytes collected, so what the holder itself has brought before
    or the worker took from the holder's index is never shared: a wheel that everybody's builds see as the operator's
    must not be one that its pusher made. What becomes everybody's is never charged to the holder, not even for
    a moment: the wheels of a lock are larger than many a quota.
    """
    wheels = {wheel.sha256: wheel for wheel in lock.wheels}
    known = held_sizes(wheels, holder)
    own = known.keys() - held_sizes(wheels, EVERYBODY).keys()
    own |= {wheel.sha256 for wheel in lock.wheels if wheel.owned}
    pushed = set(Version.objects.filter(wheel_id__in=wheels).values_list("wheel_id", flat=True))
    everybodys = wheels.keys() - own - pushed if shared else set()
    for sha256, wheel in wheels.items():
        _check_name(wheel)
        if known.get(sha256) != wheel.size:
            keeper = EVERYBODY if sha256 in everybodys else holder
            confirm_blob(sha256, wheel.size, holder=keeper, brought_by=holder)
    rows = [_row(wheel, shared=sha256 in everybodys) for sha256, wheel in wheels.items() if sha256 not in pushed]
    StoredWheel.objects.bulk_create(rows, ignore_conflicts=True)
    share_blobs(everybodys)
    StoredWheel.objects.filter(blob_id__in=everybodys, shared=False).update(shared=True)


def put_source_built(*, key: str, wheel: LockedWheel, holder: UUID) -> StoredWheel:
    """Remember what a source became. The first answer for a key stays, so that locks are the same everywhere."""
    _check_name(wheel)
    with transaction.atomic():
        keeper = holder if held_sizes([wheel.sha256], holder) else EVERYBODY
        blob = confirm_blob(wheel.sha256, wheel.size, holder=keeper, brought_by=holder)
        share_blobs([blob.pk])
        row = _row(wheel, shared=True)
        values = {"name": row.name, "version": row.version, "built_from_source": True, "shared": True}
        stored, _ = StoredWheel.objects.get_or_create(blob=blob, filename=wheel.filename, defaults=values)
        found, _ = SourceBuild.objects.select_related("wheel__blob").get_or_create(key=key, defaults={"wheel": stored})
    return found.wheel


def find_source_built(keys: Iterable[str]) -> list[tuple[str, StoredWheel]]:
    """The wheels that these sources became, as far as they are known."""
    rows = SourceBuild.objects.filter(key__in=list(keys)).select_related("wheel__blob").order_by("key")
    return [(row.key, row.wheel) for row in rows]


def _row(wheel: LockedWheel, *, shared: bool) -> StoredWheel:
    return StoredWheel(
        blob_id=wheel.sha256,
        filename=wheel.filename,
        name=canonicalize_name(wheel.name),
        version=str(Pep440(wheel.version)),
        built_from_source=wheel.built_from_source,
        shared=shared,
    )


def _check_name(wheel: LockedWheel) -> None:
    try:
        name, version, _, _ = parse_wheel_filename(wheel.filename)
        agrees = (name, version) == (canonicalize_name(wheel.name), Pep440(wheel.version))
    except (InvalidWheelFilename, InvalidVersion) as error:
        raise Invalid(f"bad wheel in the lock: {error}", code="bad_filename") from error
    if not agrees or "/" in wheel.filename:
        raise Invalid(f"{wheel.filename} is not {wheel.name} {wheel.version}", code="name_mismatch")
