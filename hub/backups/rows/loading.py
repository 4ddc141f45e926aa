"""Rows into the database: all of them or none."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

import psycopg
from django.db import Error, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from hub.backups.errors import BackupRefused, Damaged
from hub.backups.rows.frames import FrameReader, Piece
from hub.backups.rows.postgres import load_postgres, number_on
from hub.backups.rows.schema import RECORD, empty_tables, own_tables
from hub.backups.rows.sqlite import load_sqlite
from hub.backups.rows.tables import Table


def load_rows(database: BaseDatabaseWrapper, reader: FrameReader, path: str, check: Callable[[], None]) -> int:
    """Replace all rows by those of a stream; how many. `check` looks at them before they count.

    The tables have been made. Raises Damaged, BackupRefused, and what `check` raises: then nothing has changed.
    """
    load = load_postgres if database.vendor == "postgresql" else load_sqlite
    with transaction.atomic(using=database.alias):
        empty_tables(database)
        known, total = set(own_tables(database)) - {RECORD}, 0
        for table, lines in _by_table(reader.pieces()):
            if table.name not in known:
                raise Damaged(path, f"its migrations make no table {table.name}")
            try:
                total += load(database, table, lines)
            except (psycopg.Error, sqlite3.Error, Error, ValueError) as error:
                raise _not_taken(database, table, error) from error
            if table.serial and database.vendor == "postgresql":
                number_on(database, table)
        check()
    return total


def _by_table(pieces: Iterator[Piece]) -> Iterator[tuple[Table, Iterator[bytes]]]:
    """Each table with its rows, which have to be read before the next one."""
    ahead = next(pieces, None)
    while ahead is not None:
        table = ahead.table

        def rows(table: Table = table) -> Iterator[bytes]:
            nonlocal ahead
            ahead = next(pieces, None)
            while ahead is not None and ahead.lines:
                yield ahead.lines
                ahead = next(pieces, None)

        yield table, rows()


def _not_taken(database: BaseDatabaseWrapper, table: Table, error: Exception) -> BackupRefused:
    return BackupRefused(
        f"{database.display_name} does not take the rows of {table.name}: {str(error).strip()}",
        hint="nothing was changed; a text with NUL characters, which SQLite takes, has no place in Postgres",
    )
