"""What is said of a backup: written last, so that a backup without its manifest does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from pydantic import BaseModel, ConfigDict, ValidationError

from hub.backups.errors import Damaged
from hub.backups.repository import NAME_BYTES, Repository
from hub.core.errors import NotFound

FORMAT = 1
FOLDER = "backups"
_ID = re.compile(r"\d{8}T\d{6}\.\d{6}Z")


class Manifest(BaseModel):
    """Sealed, not encrypted: the hub itself lists, checks and prunes, without an identity."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    id: str
    created_at: datetime  # of the snapshot
    release: str
    recipients: tuple[str, ...]  # of age; none: not encrypted
    generation: str  # of the blobs
    keys: tuple[str, ...]  # ids of the hub's keys at that time
    rows: int
    database_bytes: int  # as stored
    blobs: int
    blob_bytes: int
    added: int  # blobs that no earlier backup had brought
    lost: tuple[str, ...] = ()  # names of blobs whose bytes the hub itself no longer had


def new_backup_id(now: datetime) -> str:
    """Its time, so that ids sort by it; one backup runs at a time."""
    return f"{now:%Y%m%dT%H%M%S.%fZ}"


def path_of(backup: str, file: str) -> str:
    """`manifest`, `database` or `blobs` of a backup."""
    return f"{FOLDER}/{backup}/{file}"


def write_manifest(repository: Repository, manifest: Manifest) -> None:
    """From now on it exists."""
    repository.write_bytes(path_of(manifest.id, "manifest"), manifest.model_dump_json(indent=1).encode())


def read_manifest(repository: Repository, backup: str) -> Manifest:
    """Raises Damaged."""
    path = path_of(backup, "manifest")
    content = repository.read_bytes(path)
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        raise Damaged(path, "a newer release wrote it, or nobody") from error


def backup_ids(repository: Repository) -> tuple[list[str], list[str]]:
    """Those that exist, oldest first; and those that never came to their end."""
    found: dict[str, bool] = {}
    for entry in repository.destination.entries(FOLDER):
        backup, _, file = entry.path.removeprefix(f"{FOLDER}/").partition("/")
        if _ID.fullmatch(backup):
            found[backup] = found.get(backup, False) or file == "manifest"
    return sorted(name for name in found if found[name]), sorted(name for name in found if not found[name])


def find_backup(repository: Repository, backup: str) -> Manifest:
    """One by its id, or the newest. Raises NotFound, Damaged."""
    there, _ = backup_ids(repository)
    if not there:
        raise NotFound(f"{repository.destination.name} has no backups")
    if backup and backup not in there:
        raise NotFound(
            f"{repository.destination.name} has no backup {backup}", hint="`manage.py backup --list` shows all"
        )
    return read_manifest(repository, backup or there[-1])


def blob_names(repository: Repository, manifest: Manifest) -> Iterator[bytes]:
    """The names of all blobs of a backup."""
    content = repository.read_bytes(path_of(manifest.id, "blobs"))
    for start in range(0, len(content), NAME_BYTES):
        yield content[start : start + NAME_BYTES]
