"""Reads of the data app."""

from __future__ import annotations

import re
from collections.abc import Collection
from uuid import UUID

from django.db.models import Count, F, Q, QuerySet, Sum
from envhub.protocol.registry.files import NLTK_INDEX
from envhub.protocol.sandboxes.images import owned
from envhub.protocol.visibility import Visibility

from hub.accounts.queries import Caller, visible_owner_ids
from hub.core.errors import NotFound
from hub.data.models import Image, OutsideFile, Snapshot, SnapshotFile

MAIN = {"main", "HEAD"}
MOST_LARGEST = 200  # rows of a list by size, which has one page
COMMIT = re.compile(r"[0-9a-f]{7,40}")  # whole or shortened, as git takes it


def pinned(kind: str, repository: str) -> Snapshot | None:
    """Return the snapshot that `main` means for a repository, or None."""
    return _named(kind, repository).filter(pinned=True).first()


def find(kind: str, repository: str, revision: str) -> Snapshot | None:
    """Return a stored revision: "main" is the pinned one; others are found by commit id, a prefix of one, or tag."""
    if revision in MAIN:
        return pinned(kind, repository)
    named = Q(revision=revision) | Q(tag=revision)
    if COMMIT.fullmatch(revision):
        named |= Q(revision__startswith=revision)
    return _named(kind, repository).filter(named).first()


def _named(kind: str, repository: str) -> QuerySet[Snapshot]:
    """Return snapshots of OWNER/NAME; a bare NAME, as in older code, means the first OWNER/NAME that was stored."""
    rows = Snapshot.objects.filter(kind=kind).order_by("pk")
    if "/" in repository:
        return rows.filter(repository=repository)
    return rows.filter(repository__endswith=f"/{repository}")


def listed() -> QuerySet[Snapshot]:
    """Return all pinned snapshots, and those added under a revision, as in `measured`."""
    return measured().filter(Q(pinned=True) | ~Q(tag=""))


def largest_first(rows: QuerySet[Snapshot]) -> list[Snapshot]:
    """The largest of rows of `measured`."""
    return list(rows.order_by(F("total").desc(nulls_last=True), "pk")[:MOST_LARGEST])


def measured() -> QuerySet[Snapshot]:
    """Return snapshots with their numbers of files and bytes, ordered by name."""
    return Snapshot.objects.annotate(file_count=Count("files"), total=Sum("files__size")).order_by(
        "kind", "repository", "pk"
    )


def file_of(snapshot: Snapshot, path: str) -> SnapshotFile:
    """Return one file, with its blob if there is one. Raises NotFound (code entry_not_found)."""
    file = SnapshotFile.objects.select_related("blob").filter(snapshot=snapshot, path=path).first()
    if file is None:
        raise NotFound(f"{snapshot.repository} has no file {path[:200]}", code="entry_not_found")
    return file


def files_below(snapshot: Snapshot, folder: str) -> QuerySet[SnapshotFile]:
    """Return the files in and under a folder ("" for all), ordered by path."""
    rows = SnapshotFile.objects.filter(snapshot=snapshot).order_by("path")
    return rows.filter(path__startswith=f"{folder}/") if folder else rows


def file_at(url: str) -> OutsideFile | None:
    """Return the stored file of a canonical URL, with its blob."""
    return OutsideFile.objects.select_related("blob").filter(url=url).first()


def listed_files() -> QuerySet[OutsideFile]:
    """Return all stored outside files, with who added them, but without NLTK's index, which is not a user's file."""
    rows = OutsideFile.objects.exclude(url=NLTK_INDEX).select_related("blob", "added_by")
    return rows.order_by("kind", "name")


def image_at(name: str, owner_id: UUID | None) -> Image | None:
    """Return an owner's (None: everybody's) image with a canonical name, with its blob."""
    return Image.objects.select_related("blob").filter(name=name, owner=owner_id).first()


def find_image(
    name: str, *, owner_id: UUID, user: Caller | None = None, authors: Collection[UUID] = ()
) -> Image | None:
    """Return what a canonical name means to the runs of an owner, with its blob.

    The candidates, in order: the image of one of `authors` (the owners of the environments that run), the owner's own,
    everybody's; or, if the name includes an owner (`hub/OWNER/NAME`), that owner's. Another owner's image counts only
    if it is public, or if `user` is a member of that owner.
    """
    rows = Image.objects.select_related("blob")
    said = owned(name)
    if said is not None:
        slugs = (said[0], said[0].removeprefix("team-"))  # Prime's clients prefix teams in this way
        named = rows.select_related("owner").filter(owner__slug__in=slugs, name=said[1])
        # Prefer the exact name.
        found = sorted(named, key=lambda row: row.owner is None or row.owner.slug != said[0])[:1]
    else:
        of = Q(owner__isnull=True) | Q(owner__in={owner_id, *authors})
        found = sorted(rows.filter(of, name=name), key=lambda row: _nearness(row, owner_id, authors))
    return next((row for row in found if _may_use(row, owner_id, user)), None)


def usable_images(
    names: Collection[str], *, owner_id: UUID, user: Caller | None = None, authors: Collection[UUID] = ()
) -> set[str]:
    """Return which of these canonical names mean an image, as `find_image` does."""
    shared = Q(visibility=Visibility.PUBLIC.value)
    if user is not None:
        shared |= Q(owner__in=visible_owner_ids(user))
    of = Q(owner__isnull=True) | Q(owner=owner_id) | (Q(owner__in=authors) & shared)
    plain = [name for name in names if owned(name) is None]
    found = set(Image.objects.filter(of, name__in=plain).values_list("name", flat=True))
    named = (name for name in names if owned(name) is not None)
    return found | {name for name in named if find_image(name, owner_id=owner_id, user=user) is not None}


def _nearness(row: Image, owner_id: UUID, authors: Collection[UUID]) -> tuple[bool, bool, str]:
    """Return a sort key by which an environment's image comes first, and everybody's last."""
    return row.owner_id is None, row.owner_id not in authors, str(row.owner_id)


def _may_use(row: Image, owner_id: UUID, user: Caller | None) -> bool:
    if row.owner_id in (None, owner_id) or row.is_public:
        return True
    return user is not None and visible_owner_ids(user).filter(pk=row.owner_id).exists()


def listed_images(user: Caller) -> QuerySet[Image]:
    """Return the images that a user may have in sandboxes, with their blobs, owners and who added them."""
    public = Q(owner__isnull=True) | Q(visibility=Visibility.PUBLIC.value)
    rows = Image.objects.filter(public | Q(owner__in=visible_owner_ids(user)))
    return rows.select_related("blob", "added_by", "owner").order_by("name", "owner__slug")
