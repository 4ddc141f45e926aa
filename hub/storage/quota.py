"""Tracks how many bytes are stored for each owner, and enforces the quota.

Each owner has a counter row, which is updated in the transaction that creates or deletes a BlobHolder, so that reading
the total costs one row. What anybody may refer to (wheels of the public index) is charged to nobody. Uploads count from
when their addresses are issued until they are confirmed or collected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID, uuid5

from django.db import transaction
from django.db.models import F, QuerySet, Sum
from django.utils import timezone

from hub.accounts.quotas import limits_of_each
from hub.core.errors import TooLarge
from hub.storage.models import EVERYBODY, Blob, BlobHolder, PendingUpload, StorageUse

GB = 1000**3
MAX_OF_RUNS = 64 * GB  # limit for the pending uploads of one owner's runs


class QuotaExceeded(TooLarge):
    """The bytes do not fit into the owner's quota."""

    code = "quota_exceeded"

    def __init__(self, *, used: int, size: int, limit: int) -> None:
        super().__init__(
            f"storage is full: {used / GB:.2f} of {limit / GB:g} GB are used, {size / GB:.2f} GB more would not fit",
            hint="delete versions, evaluations, checkpoints or models (their space is free after the hub's next "
            "collect_garbage; uploads that were not finished count for a day), or ask an administrator for more",
        )


def quota(owner: UUID) -> int | None:
    """Return the bytes that an owner may store; None: no limit."""
    return quotas([owner])[owner]


def quotas(owners: Iterable[UUID]) -> dict[UUID, int | None]:
    """Return the bytes that each of these owners may store; None: no limit."""
    limits = {owner: limits.storage_gb for owner, limits in limits_of_each(owners).items()}
    return {owner: None if limit is None else round(limit * GB) for owner, limit in limits.items()}


def used_by(holders: Iterable[UUID]) -> dict[UUID, int]:
    """Return the bytes stored for each of these owners."""
    holders = list(holders)
    known = dict(StorageUse.objects.filter(pk__in=holders).values_list("pk", "size"))
    return {holder: known.get(holder, 0) for holder in holders}


def inbox_of_runs(owner: UUID) -> UUID:
    """Return the inbox for uploads by workers of an owner's runs. They are charged only on confirmation, because the
    wheels of a lock exceed many quotas, and nearly all of them become EVERYBODY's."""
    return uuid5(owner, "runs")


def reserve(*, inbox: UUID, blobs: Mapping[str, int], by_run: bool) -> None:
    """Reserve room for uploads (sha256 -> size) that are about to begin, in addition to what is stored for the inbox's
    owner and pending in it. Raises QuotaExceeded."""
    limit = MAX_OF_RUNS if by_run else quota(inbox)
    if limit is None or not blobs:
        return
    with transaction.atomic():
        StorageUse.objects.get_or_create(pk=inbox)
        used = StorageUse.objects.select_for_update().get(pk=inbox).size  # serializes concurrent reservations
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
    """Check that bytes fit before they are taken from an inbox; `charge` has the last word. Raises QuotaExceeded."""
    limit = None if holder == EVERYBODY else quota(holder)
    if limit is not None and (used := used_by([holder])[holder]) + size > limit:
        raise QuotaExceeded(used=used, size=size, limit=limit)


def charge(*, holder: UUID, size: int) -> None:
    """Count bytes of a new BlobHolder of `holder`, inside its transaction. Raises QuotaExceeded."""
    if holder == EVERYBODY:
        return
    row, limit = StorageUse.objects.filter(pk=holder), quota(holder)
    fits = row if limit is None else row.filter(size__lte=limit - size)
    if fits.update(size=F("size") + size) == 1:
        return
    StorageUse.objects.get_or_create(pk=holder)  # the holder's first bytes
    if fits.update(size=F("size") + size) != 1:
        raise QuotaExceeded(used=used_by([holder])[holder], size=size, limit=limit or 0)


def release(*, holders: Iterable[UUID], size: int) -> None:
    """Give `size` bytes back to each holder, inside the transaction that deletes their BlobHolders."""
    for holder in sorted(holders):  # in a fixed order, so that transactions cannot deadlock
        StorageUse.objects.filter(pk=holder).update(size=F("size") - size)


def release_holders(blob: Blob, holders: QuerySet[BlobHolder]) -> None:
    """Delete these holders of a locked blob, and give them its bytes back."""
    released = list(holders.values_list("holder", flat=True))
    holders.delete()
    release(holders=released, size=blob.size)
