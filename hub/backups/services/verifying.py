"""Verifies backups: without an identity, by the seals of their files; with one, also by the hash of every blob."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

from hub.backups.destinations.interface import Destination
from hub.backups.errors import Damaged
from hub.backups.manifest import Manifest, blob_names, find_backup, path_of
from hub.backups.repository import blob_path, open_repository
from hub.backups.services.reading import Opened, opened
from hub.backups.services.transfers import each_of


def verify(
    *, destination: Destination, backup: str, identity: Path | None, say: Callable[[str], None]
) -> tuple[Manifest, list[str]]:
    """Read every file of a backup; return its manifest and one line per problem.

    Raises NotFound, WrongKey, and Damaged if nothing further can be read.
    """
    repository = open_repository(destination)
    manifest = find_backup(repository, backup)
    repository.read(path_of(manifest.id, "database"))
    names = list(blob_names(repository, manifest))
    say(f"{manifest.id}: reading {len(names)} blobs")
    if manifest.recipients and identity is None:
        lost = set(manifest.lost)
        paths = (blob_path(manifest.generation, name) for name in names if name.hex() not in lost)
        return manifest, _problems(paths, repository.read)
    with opened(destination, manifest.id, identity) as whole:
        return manifest, [*_rows_problems(whole, names), *_problems(whole.blobs(), lambda one: _check(whole, one))]


def _problems(items: Iterator[str], check: Callable[[str], None]) -> list[str]:
    def problem(item: str) -> str:
        try:
            check(item)
        except Damaged as error:
            return error.message
        return ""

    return [found for found in each_of(items, problem) if found]


def _rows_problems(whole: Opened, names: list[bytes]) -> Iterator[str]:
    """Check that the rows are complete, and that their blobs are those in the index, which pruning relies on."""
    for _ in whole.reader().pieces():
        pass
    generation, repository = whole.manifest.generation, whole.repository
    if {repository.blob_name(generation, bytes.fromhex(sha256)) for sha256 in whole.blobs()} != set(names):
        yield f"{path_of(whole.manifest.id, 'blobs')}: it names other blobs than the database"


def _check(whole: Opened, sha256: str) -> None:
    if whole.is_lost(sha256):
        return
    with whole.blob(sha256) as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
    if found != sha256:
        raise Damaged(whole.path(sha256), f"its bytes differ from those of blob {sha256}")
