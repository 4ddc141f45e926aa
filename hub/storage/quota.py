"""How many bytes are stored for each owner, and how many may be.

A counter row an owner, moved in the transaction that makes or deletes a BlobHolder: asking costs one row however many
blobs there are. What everybody may refer to (wheels of the public index) is charged to nobody. Uploads count from the
moment that their addresses are given out, until they are confirmed or collected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID, uuid5

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet, Sum
from django.utils import timezone

from hub.core.errors import TooLarge
from hub.storage.models import EVERYBODY, Blob, BlobHolder, PendingUpload, StorageUse

GB = 1000**3
MAX_OF_RUNS = 64 * GB  # pending uploads of one owner's runs


class QuotaExceeded(TooLarge):
    """These bytes do not fit."""

    code = "quota_exceeded"

    def __init__(self, *, used: int, size: int, limit: int) -> None:
        super().__init__(
            f"storage is full: {used / GB:.2f} of {limit / GB:g} GB are used, {size / GB:.2f} GB more do not fit",
            hint="delete versions, evaluations, checkpoints or models (their space is free after the hub's next "
            "collect_garbage; uploads that were not finished count for a day), or ask its operator for a higher "
            "HUB_OWNER_QUOTA_GB",
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


def inbox_of_runs(owner: UUID) -> UUID:
    """Where the workers of an owner's runs put what they bring. It is charged only when it is confirmed: the wheels of
    a lock are larger than many a quota, and nearly all become everybody's."""
    return uuid5(owner, "runs")


def reserve(*, inbox: UUID, blobs: Mapping[str, int], by_run: bool) -> None:
    """Count uploads (sha256 -> size) that are about to begin, with what is stored for the inbox's owner and what is
    pending in it. Raises QuotaExceeded."""
    limit = MAX_OF_RUNS if by_run else quota()
    if limit is None or not blobs:
        return
    with transaction.atomic():
        StorageUse.objects.get_or_create(pk=inbox)
        used = StorageUse.objects.select_for_update().get(pk=inbox).size  # two that begin together take turns
        others = PendingUpload.objects.filter(inbox=inbox).exclude(sha256__in=list(blobs))
        used += others.aggregate(size=Sum("size"))["size"] or 0
        if (size := sum(blobs.values())) > limit - used:
            raise QuotaExceeded(used=used, size=size, limit=limit)
        rows = [
            PendingUpload(inbox=inbox, sha256=sha256, size=size, created_at=timezone.now())
            for sha256, size in blobs.items()
        ]
        PendingUpload.objects.bulk_create(
            rows, update_conflicts=True, unique_fields=["inbox", "sha256"], update_fields=["size", "created_at"]
        )


def check_room(*, holder: UUID, size: int) -> None:
    """Before bytes are taken from an inbox. Raises QuotaExceeded; `charge` decides."""
    limit = None if holder == EVERYBODY else quota()
    if limit is not None and (used := used_by([holder])[holder]) + size > limit:
        raise QuotaExceeded(used=used, size=size, limit=limit)


def charge(*, holder: UUID, size: int) -> None:
    """Count bytes that `holder` has brought; inside the transaction that makes its BlobHolder. Raises QuotaExceeded."""
    if holder == EVERYBODY:
        return
    row, limit = StorageUse.objects.filter(pk=holder), quota()
    fits = row if limit is None else row.filter(size__lte=limit - size)
    if fits.update(size=F("size") + size) == 1:
        return
    StorageUse.objects.get_or_create(pk=holder)  # its first bytes
    if fits.update(size=F("size") + size) != 1:
        raise QuotaExceeded(used=used_by([holder])[holder], size=size, limit=limit or 0)


def release(*, holders: Iterable[UUID], size: int) -> None:
    """Give `size` bytes back to each; inside the transaction that deletes their BlobHolders."""
    for holder in sorted(holders):  # in one order, so that two transactions never wait for each other
        StorageUse.objects.filter(pk=holder).update(size=F("size") - size)


def let_go(blob: Blob, holders: QuerySet[BlobHolder]) -> None:
    """End these holdings of a locked blob, and what they are charged for it."""
    released = list(holders.values_list("holder", flat=True))
    holders.delete()
    release(holders=released, size=blob.size)
