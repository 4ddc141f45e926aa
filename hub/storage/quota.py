"""How many bytes are stored for each owner, and how many may be.

A counter row an owner, moved in the transaction that makes or deletes a BlobHolder: asking costs one row however many
blobs there are. What everybody may refer to (wheels of the public index) is charged to nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.conf import settings
from django.db.models import F

from hub.core.errors import TooLarge
from hub.storage.models import EVERYBODY, StorageUse

GB = 1000**3


class QuotaExceeded(TooLarge):
    """These bytes do not fit."""

    code = "quota_exceeded"

    def __init__(self, *, used: int, size: int, limit: int) -> None:
        super().__init__(
            f"storage is full: {used / GB:.2f} of {limit / GB:g} GB are used, {size / GB:.2f} GB more do not fit",
            hint="delete versions, evaluations, checkpoints or models (their space is free after the hub's next "
            "collect_garbage), or ask its operator for a higher HUB_OWNER_QUOTA_GB",
        )


def quota() -> int | None:
    """Bytes that an owner may have; None: no limit."""
    gigabytes: float = settings.HUB.owner_quota_gb
    return round(gigabytes * GB) or None


def used_by(holders: Iterable[UUID]) -> dict[UUID, int]:
    """Bytes stored for each of these owners."""
    holders = list(holders)
    known = dict(StorageUse.objects.filter(pk__in=holders).values_list("pk", "size"))
    return {holder: known.get(holder, 0) for holder in holders}


def check_room(*, holder: UUID, size: int) -> None:
    """Before an upload begins. Raises QuotaExceeded; `charge` decides when it ends."""
    limit = quota()
    if limit is None or size == 0:
        return
    used = used_by([holder])[holder]
    if used + size > limit:
        raise QuotaExceeded(used=used, size=size, limit=limit)


def charge(*, holder: UUID, size: int) -> None:
    """Count bytes that `holder` has brought; inside the transaction that makes its BlobHolder. Raises QuotaExceeded."""
    if holder == EVERYBODY:
        return
    StorageUse.objects.get_or_create(pk=holder)
    row, limit = StorageUse.objects.filter(pk=holder), quota()
    fits = row if limit is None else row.filter(size__lte=limit - size)
    if fits.update(size=F("size") + size) != 1:
        raise QuotaExceeded(used=used_by([holder])[holder], size=size, limit=limit or 0)


def release(*, holders: Iterable[UUID], size: int) -> None:
    """Give `size` bytes back to each; inside the transaction that deletes their BlobHolders."""
    for holder in sorted(holders):  # in one order, so that two transactions never wait for each other
        StorageUse.objects.filter(pk=holder).update(size=F("size") - size)
