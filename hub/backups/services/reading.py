"""Reads and decrypts a backup's files on this host: its database, and its blobs one by one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from pyrage import x25519

from hub.backups.destinations.interface import Destination
from hub.backups.errors import BackupRefused, Damaged, WrongKey
from hub.backups.identities import CannotDecrypt, Writer, decrypt, read_identities
from hub.backups.manifest import Manifest, find_backup, path_of
from hub.backups.repository import Repository, UnsealedRepository, blob_path, open_repository
from hub.backups.rows.frames import FrameReader, Header
from hub.backups.rows.tables import FIRST

IN_MEMORY = 8 * 1024**2  # bytes of a blob; the rest is spooled to disk


class Opened:
    """A backup whose database has been decrypted to a private temporary file."""

    def __init__(
        self, repository: Repository, manifest: Manifest, identities: Sequence[x25519.Identity] | None, rows: BinaryIO
    ) -> None:
        self.repository = repository
        self.manifest = manifest
        self.database_path = path_of(manifest.id, "database")
        self._identities = identities
        self._rows = rows

    def reader(self) -> FrameReader:
        """Return a reader of the database, from its beginning."""
        self._rows.seek(0)
        return FrameReader(self._rows, self.database_path)

    @property
    def header(self) -> Header:
        """The header of the database."""
        return self.reader().header

    def blobs(self) -> Iterator[str]:
        """Yield the SHA-256 of every blob. They come first, so no other table is read."""
        for table, lines in self.reader().pieces():
            if table.name != FIRST:
                return
            place = [column.name for column in table.columns].index("sha256")
            for line in lines.split(b"\n")[:-1]:
                yield line.split(b"\t")[place].decode()

    def path(self, sha256: str) -> str:
        """Return the path of a blob at the destination."""
        generation = self.manifest.generation
        return blob_path(generation, self.repository.blob_name(generation, bytes.fromhex(sha256)))

    def is_lost(self, sha256: str) -> bool:
        """Return whether the hub had lost the blob before the backup."""
        return self.path(sha256).rpartition("/")[2] in self.manifest.lost

    @contextmanager
    def blob(self, sha256: str) -> Iterator[BinaryIO]:
        """Provide the blob's bytes; the caller must verify their hash. Raises Damaged."""
        with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as spool:
            target = cast("BinaryIO", spool)
            try:
                _decrypt(self.repository, self.path(sha256), target, self.manifest, self._identities)
            except Damaged as error:
                # age authenticates each 64 KiB by itself, so decryption ends at the first that has been changed
                good = f", of which the first {spool.tell()} bytes decrypt" if self._identities and spool.tell() else ""
                raise Damaged(error.path, f"{error.problem} (blob {sha256}{good})") from error
            except WrongKey as error:  # but the same identity has opened the database
                raise Damaged(self.path(sha256), f"no identity can open it (blob {sha256})") from error
            spool.seek(0)
            yield target


@contextmanager
def opened(
    destination: Destination, backup: str, identity: Path | None, *, lost_keys: bool = False
) -> Iterator[Opened]:
    """Open a backup by its id, or the newest. Raises NotFound, WrongKey, Damaged, BackupRefused (no identity)."""
    repository = UnsealedRepository(destination, b"") if lost_keys else open_repository(destination)
    manifest = find_backup(repository, backup)
    identities = _identities(manifest, identity)
    with tempfile.TemporaryFile(prefix="hub-restore-") as rows:
        _decrypt(repository, path_of(manifest.id, "database"), rows, manifest, identities)
        found = Opened(repository, manifest, identities, rows)
        if lost_keys:
            repository.key = bytes.fromhex(found.header.repository_key)
        yield found


def _identities(manifest: Manifest, identity: Path | None) -> list[x25519.Identity] | None:
    if not manifest.recipients:
        return None
    if identity is None:
        raise BackupRefused(
            f"{manifest.id} is encrypted for {', '.join(manifest.recipients)}",
            hint="pass the file with the private key: --identity FILE",
        )
    return read_identities(identity)


def _decrypt(
    repository: Repository,
    path: str,
    target: Writer,
    manifest: Manifest,
    identities: Sequence[x25519.Identity] | None,
) -> None:
    """Decrypt a file. Its seal takes precedence: a sealed file that no identity opens was encrypted for another one."""
    try:
        repository.read(path, lambda source: decrypt(source, target, identities))
    except CannotDecrypt as error:
        if isinstance(repository, UnsealedRepository) and "No matching keys" not in str(error):
            raise Damaged(path, "it cannot be decrypted") from error
        wanted = ", ".join(manifest.recipients)
        raise WrongKey(f"no identity in that file can open {path}", hint=f"the backup was made for {wanted}") from error
