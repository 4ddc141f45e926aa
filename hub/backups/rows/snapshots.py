"""A consistent view of the database, whichever it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from django.db.backends.base.base import BaseDatabaseWrapper

from hub.backups.rows.postgres import postgres_snapshot
from hub.backups.rows.sqlite import sqlite_snapshot
from hub.backups.rows.tables import FIRST, Table


class Snapshot(Protocol):
    """All reads see the same moment."""

    def query(self, text: str) -> Iterator[tuple[Any, ...]]:
        """Rows of a statement in the SQL that both databases speak."""

    def lines(self, table: Table) -> Iterator[bytes]:
        """A table's rows as COPY writes them: whole lines, many at once."""


def take_snapshot(database: BaseDatabaseWrapper) -> AbstractContextManager[Snapshot]:
    """Valid inside the context. Never blocks a writer."""
    return postgres_snapshot(database) if database.vendor == "postgresql" else sqlite_snapshot(database)


def migrations_in(snapshot: Snapshot) -> tuple[tuple[str, str], ...]:
    """All that were applied."""
    return tuple((str(app), str(name)) for app, name in snapshot.query("SELECT app, name FROM django_migrations"))


def blobs_in(snapshot: Snapshot) -> Iterator[tuple[bytes, int]]:
    """SHA-256 and size of every blob."""
    for sha256, size in snapshot.query(f"SELECT sha256, size FROM {FIRST}"):  # noqa: S608
        yield bytes.fromhex(sha256), size
