"""Reads of the data app."""

from __future__ import annotations

import re

from django.db.models import Count, Q, QuerySet, Sum
from envhub.protocol.registry.files import NLTK_INDEX

from hub.core.errors import NotFound
from hub.data.models import Image, OutsideFile, Snapshot, SnapshotFile

MAIN = {"main", "HEAD"}
COMMIT = re.compile(r"[0-9a-f]{7,40}")  # whole or shortened, as git takes it


def pinned(kind: str, repository: str) -> Snapshot | None:
    """What `main` means for a repository, or None."""
    return _named(kind, repository).filter(pinned=True).first()


def find(kind: str, repository: str, revision: str) -> Snapshot | None:
    """A kept revision: "main" is the pinned one, others by commit id, the beginning of one, or tag."""
    if revision in MAIN:
        return pinned(kind, repository)
    named = Q(revision=revision) | Q(tag=revision)
    if COMMIT.fullmatch(revision):
        named |= Q(revision__startswith=revision)
    return _named(kind, repository).filter(named).first()


def _named(kind: str, repository: str) -> QuerySet[Snapshot]:
    """Snapshots of OWNER/NAME; a bare NAME, as older code writes it, means the first OWNER/NAME that was kept."""
    rows = Snapshot.objects.filter(kind=kind).order_by("pk")
    if "/" in repository:
        return rows.filter(repository=repository)
    return rows.filter(repository__endswith=f"/{repository}")


def listed() -> QuerySet[Snapshot]:
    """All pinned snapshots, and those added under a revision, as in `measured`."""
    return measured().filter(Q(pinned=True) | ~Q(tag=""))


def measured() -> QuerySet[Snapshot]:
    """Snapshots with their number of files and bytes, by name."""
    return Snapshot.objects.annotate(file_count=Count("files"), total=Sum("files__size")).order_by(
        "kind", "repository", "pk"
    )


def file_of(snapshot: Snapshot, path: str) -> SnapshotFile:
    """One file, with its blob if there is one. Raises NotFound (code entry_not_found)."""
    file = SnapshotFile.objects.select_related("blob").filter(snapshot=snapshot, path=path).first()
    if file is None:
        raise NotFound(f"{snapshot.repository} has no file {path[:200]}", code="entry_not_found")
    return file


def files_below(snapshot: Snapshot, folder: str) -> QuerySet[SnapshotFile]:
    """The files in and under a folder ("" for all), by path."""
    rows = SnapshotFile.objects.filter(snapshot=snapshot).order_by("path")
    return rows.filter(path__startswith=f"{folder}/") if folder else rows


def file_at(url: str) -> OutsideFile | None:
    """What is kept of a canonical URL, with its blob."""
    return OutsideFile.objects.select_related("blob").filter(url=url).first()


def listed_files() -> QuerySet[OutsideFile]:
    """All kept files of the outside, with who added them; NLTK's index is no file of anybody's."""
    rows = OutsideFile.objects.exclude(url=NLTK_INDEX).select_related("blob", "added_by")
    return rows.order_by("kind", "name")


def image_named(name: str) -> Image | None:
    """What is known under a canonical name, with its blob."""
    return Image.objects.select_related("blob").filter(name=name).first()


def listed_images() -> QuerySet[Image]:
    """All images, with their blobs and who added them."""
    return Image.objects.select_related("blob", "added_by").order_by("name")
