"""Reads of stored bytes, and the backend that the settings name."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from django.conf import settings
from django.db.models import PROTECT, ManyToOneRel, Sum

from hub.core.errors import NotFound
from hub.storage.backends.files import FilesBackend
from hub.storage.backends.interface import Backend
from hub.storage.backends.s3 import S3Backend
from hub.storage.models import EVERYBODY, Blob, PendingUpload, StorageUse

MOST_PENDING = 1000


@cache
def backend() -> Backend:
    """The backend of this process; made once."""
    hub = settings.HUB
    if hub.storage == "s3":
        return S3Backend(
            bucket=hub.s3_bucket,
            region=hub.s3_region,
            endpoint_url=hub.s3_endpoint_url,
            public_endpoint_url=hub.s3_public_endpoint_url,
        )
    return FilesBackend(hub.data / "blobs", str(hub.base_url))


def get_blob(sha256: str) -> Blob:
    """The row of a blob. Raises NotFound."""
    blob = Blob.objects.filter(pk=sha256).first()
    if blob is None:
        raise NotFound("there is no such blob")
    return blob


def held_sizes(sha256s: Iterable[str], holder: UUID) -> dict[str, int]:
    """Those of these blobs whose bytes `holder` has shown before, or which are everybody's, with their sizes."""
    rows = Blob.objects.filter(pk__in=list(sha256s), holders__holder__in=(holder, EVERYBODY))
    return dict(rows.values_list("pk", "size"))


def referred_to(sha256s: Iterable[str]) -> set[str]:
    """Those of these blobs that a row of another app refers to; a query for each kind of row."""
    wanted, found = list(sha256s), set[str]()
    for relation in Blob._meta.get_fields(include_hidden=True):
        if isinstance(relation, ManyToOneRel) and relation.on_delete is PROTECT:
            column = relation.field.attname
            rows = relation.related_model._base_manager.filter(**{f"{column}__in": wanted})
            found.update(rows.order_by().values_list(column, flat=True).distinct())
    return found


def largest_holders(most: int) -> dict[UUID, int]:
    """The owners with the most bytes, largest first."""
    rows = StorageUse.objects.filter(size__gt=0).order_by("-size", "pk")
    return dict(rows.values_list("pk", "size")[:most])


def total_held() -> int:
    """Bytes that count for owners: a row an owner is summed up, never one a blob."""
    return StorageUse.objects.aggregate(size=Sum("size"))["size"] or 0


def pending_uploads() -> tuple[int, int]:
    """How many uploads are announced and not confirmed, up to MOST_PENDING, and their bytes."""
    sizes = list(PendingUpload.objects.order_by("pk").values_list("size", flat=True)[:MOST_PENDING])
    return len(sizes), sum(sizes)


def open_blob(sha256: str) -> BinaryIO:
    """A stream over the bytes. Raises NotFound."""
    return backend().open(sha256)


def local_or_temp_path(sha256: str) -> AbstractContextManager[Path]:
    """A read-only file with the bytes, valid inside the context. Raises NotFound."""
    return backend().local_path(sha256)


def presign_get(sha256: str, filename: str = "", seconds: int = 3600) -> str:
    """Where whoever gets this URL may download the bytes for a while."""
    return backend().presign_get(sha256, filename=filename, seconds=seconds)
