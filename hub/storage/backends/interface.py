"""What a storage backend must do. Content-addressed: a key is the SHA-256 of its bytes, so objects never change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol
from uuid import UUID

from envhub.protocol.base import Upload


class Stored(NamedTuple):
    """One object in the store, whether or not a Blob row knows it."""

    sha256: str
    size: int
    modified_at: datetime


def accept_any(size: int) -> None:
    """Refuses no upload for its size."""


class Backend(Protocol):
    """All methods raise Unavailable when the store cannot be reached; sizes in bytes, times in seconds."""

    @property
    def largest_upload(self) -> int:
        """How many bytes one presigned request may bring."""

    def stat(self, sha256: str) -> Stored | None:
        """What is there, or None."""

    def upload_size(self, sha256: str, holder: UUID) -> int | None:
        """How many bytes lie in `holder`'s inbox under this name, whatever they are; None when nothing is there."""

    def take_upload(self, sha256: str, holder: UUID, accept: Callable[[int], None] = accept_any) -> int | None:
        """Store what lies in `holder`'s inbox, after making sure of its hash; its size, None when nothing is there.

        accept: called with the size before anything is stored; raises to refuse it.
        The inbox keeps it until `drop_upload`, so that it can be said twice. Raises Invalid for another hash.
        """

    def drop_upload(self, sha256: str, holder: UUID) -> None:
        """Empty this place of the inbox; absent is fine."""

    def drop_old_uploads(self, before: datetime) -> None:
        """Empty all inboxes of what came before then: uploads that nobody confirmed, or that broke off."""

    def write(self, sha256: str, source: BinaryIO) -> int:
        """Store all of `source`, atomically; its size. Raises Invalid when the bytes have another hash."""

    def open(self, sha256: str) -> BinaryIO:
        """A readable stream from the first byte. Raises NotFound."""

    def local_path(self, sha256: str) -> AbstractContextManager[Path]:
        """A file with the bytes, valid inside the context; never to be written. Raises NotFound."""

    def delete(self, sha256: str) -> None:
        """Remove the object; absent is fine."""

    def every(self) -> Iterator[Stored]:
        """All objects, in any order."""

    def presign_put(self, sha256: str, size: int, *, holder: UUID, seconds: int) -> Upload:
        """Where a client may PUT exactly these bytes, into the inbox of `holder`."""

    def presign_get(self, sha256: str, *, filename: str, seconds: int) -> str:
        """Where a client may GET the bytes, offered as an attachment named `filename`."""

    def check(self) -> None:
        """Raises Unavailable when the store does not work."""
