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
    said = owned(name)
    if said is not None:
        found = list(_by_owner({said}).values())
    else:
        rows = Image.objects.select_related("blob").filter(
            Q(owner__isnull=True) | Q(owner__in={owner_id, *authors}), name=name
        )
        found = sorted(rows, key=lambda row: _nearness(row, owner_id, authors))
    return next((row for row in found if _may_use(row, owner_id, user)), None)


def usable_images(
    names: Collection[str], *, owner_id: UUID, user: Caller | None = None, authors: Collection[UUID] = ()
) -> set[str]:
    """Return which of these canonical names mean an image, as `find_image` does, in three queries for any number."""
    shared = Q(visibility=Visibility.PUBLIC.value)
    if user is not None:
        shared |= Q(owner__in=visible_owner_ids(user))
    of = Q(owner__isnull=True) | Q(owner=owner_id) | (Q(owner__in=authors) & shared)
    plain = [name for name in names if owned(name) is None]
    found = set(Image.objects.filter(of, name__in=plain).values_list("name", flat=True))
    said = {name: pair for name in names if (pair := owned(name)) is not None}
    named = _by_owner(set(said.values())) if said else {}
    private = {row.owner_id for row in named.values() if not row.is_public}
    strangers = {one for one in private if one is not None and one != owner_id}
    if user is not None and strangers:
        strangers -= set(visible_owner_ids(user).filter(pk__in=strangers))
    usable = {pair for pair, row in named.items() if row.is_public or row.owner_id not in strangers}
    return found | {name for name, pair in said.items() if pair in usable}


def _by_owner(said: Collection[tuple[str, str]]) -> dict[tuple[str, str], Image]:
    """Return the image that each (owner, name) means: Prime's clients may write a team as `team-OWNER`."""
    slugs = {slug for owner, _ in said for slug in (owner, owner.removeprefix("team-"))}
    rows = Image.objects.select_related("blob", "owner").filter(
        owner__slug__in=slugs, name__in={name for _, name in said}
    )
    there = {(row.owner.slug, row.name): row for row in rows if row.owner is not None}
    bare = {(owner, name): (owner.removeprefix("team-"), name) for owner, name in said}
    return {pair: row for pair in said if (row := there.get(pair) or there.get(bare[pair])) is not None}


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
