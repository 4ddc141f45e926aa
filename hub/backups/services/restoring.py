"""Restores a backup: first the blobs, which do no harm, then all rows in one transaction, then later migrations.

It may be interrupted at any point and run again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from cryptography.fernet import InvalidToken
from django.db import connection
from django.db.models import Field

from hub.backups.destinations.interface import Destination
from hub.backups.errors import BackupRefused, Damaged
from hub.backups.manifest import Manifest
from hub.backups.rows.loading import load_rows
from hub.backups.rows.schema import check_known, count_users, make_tables, migrate_on
from hub.backups.services.reading import Opened, opened
from hub.backups.services.transfers import each_of
from hub.core.errors import Invalid
from hub.secrets.encrypted_fields import encrypted_fields
from hub.secrets.keyring import keyring, own_keys
from hub.storage.backends.interface import Backend
from hub.storage.queries import backend

Say = Callable[[str], None]


@dataclass(frozen=True)
class Permits:
    """What the operator has explicitly allowed."""

    overwrite: bool = False  # overwrite the existing hub
    lost_keys: bool = False  # the keys of the backed-up hub are lost
    skip_damaged: bool = False  # restore without the blobs that are damaged at the destination


def restore(*, destination: Destination, backup: str, identity: Path | None, permits: Permits, say: Say) -> Manifest:
    """Restore into the database and the storage of this process's settings.

    Raises NotFound, WrongKey, Damaged, BackupRefused; the database is then unchanged, or empty.
    """
    if not permits.overwrite:
        _check_no_users()
    with opened(destination, backup, identity, lost_keys=permits.lost_keys) as whole:
        check_known(connection, whole.header.migrations, whole.header.release)
        left_out = _bring_blobs(whole, permits, say)
        make_tables(connection, whole.header.migrations)
        check = lambda: _check_secrets(whole, permits, say)  # noqa: E731
        rows = load_rows(connection, whole.reader(), whole.database_path, check)
        say(f"{rows} rows restored")
        if migrate_on(connection):
            say(f"migrated from release {whole.header.release}")
        _refresh_statistics()
        if left_out:
            _say_left_out(left_out, say)
        return whole.manifest


def _check_no_users() -> None:
    if users := count_users(connection):
        raise BackupRefused(
            f"this hub is not empty: its database has {users} users",
            hint="restore into an empty database, or pass --overwrite to delete its data "
            "(if a restore was interrupted while migrating, `manage.py migrate` completes it)",
        )


def _bring_blobs(whole: Opened, permits: Permits, say: Say) -> list[str]:
    """Copy the blobs that the storage lacks; those from an interrupted restore stay.

    Returns the paths at the destination of the damaged ones, which are left out.
    """
    store = backend()
    there = {found.sha256 for found in store.every()}
    wanted = set(whole.blobs())
    if (foreign := there - wanted) and not permits.overwrite:
        raise BackupRefused(
            f"the storage is not empty: {len(foreign)} of its blobs are not in this backup",
            hint="restore into empty storage, or pass --overwrite: `collect_garbage` then deletes these blobs",
        )
    missing = sorted(sha256 for sha256 in wanted - there if not whole.is_lost(sha256))

    def bring(sha256: str) -> Damaged | None:
        try:
            _bring(whole, store, sha256)
        except Damaged as error:
            if permits.skip_damaged:
                return error
            error.hint += "; or restore everything else: --skip-damaged"
            raise
        return None

    left_out = []
    for number, damage in enumerate(each_of(missing, bring), start=1):
        if damage is not None:
            left_out.append(damage.path)
            say(f"LEFT OUT: {damage.message}")
        if number % 10_000 == 0:
            say(f"{number} of {len(missing)} blobs restored")
    say(f"{len(missing) - len(left_out)} blobs restored, {len(wanted) - len(missing)} were there")
    if whole.manifest.lost:
        say(f"{len(whole.manifest.lost)} blobs had been lost before this backup was made")
    return left_out


def _bring(whole: Opened, store: Backend, sha256: str) -> None:
    """Copy one blob into the storage. Raises Damaged."""
    with whole.blob(sha256) as content:
        try:
            store.write(sha256, content)
        except Invalid as error:
            raise Damaged(whole.path(sha256), f"its bytes differ from those of blob {sha256}") from error


def _say_left_out(paths: list[str], say: Say) -> None:
    """List the damaged files last. The next backup would take them for good ones, as it looks at names only."""
    say(f"{len(paths)} damaged blobs were left out: what refers to them cannot be downloaded")
    say("Delete their files at the destination, so that the next backup copies them again or calls them LOST:")
    for path in sorted(paths):
        say(path)


def _check_secrets(whole: Opened, permits: Permits, say: Say) -> None:
    """Check the secrets before the rows are committed.

    Raises BackupRefused if the hub's keys do not open all of them.
    """
    total, closed = 0, 0
    tables = set(connection.introspection.table_names())
    for model, name in encrypted_fields():
        table, column = model._meta.db_table, str(cast("Field[Any, Any]", model._meta.get_field(name)).column)
        if table not in tables or column not in _columns(table):
            continue
        with connection.cursor() as cursor:
            cursor.execute(f'SELECT "{column}" FROM "{table}" WHERE "{column}" <> %s', [""])  # noqa: S608  own names
            for (text,) in cursor.fetchall():
                total, closed = total + 1, closed + (not _opens(text))
    if not closed:
        return
    missing = ", ".join(key for key in whole.manifest.keys if key not in own_keys()) or "an older one"
    says = f"{closed} of {total} secrets cannot be opened: of the keys of the backed-up hub, {missing} is missing here"
    if not permits.lost_keys:
        raise BackupRefused(says, hint="add it to HUB_SECRETS_KEYS; or pass --lost-keys, then set these secrets again")
    say(says)


def _columns(table: str) -> set[str]:
    with connection.cursor() as cursor:
        return {column.name for column in connection.introspection.get_table_description(cursor, table)}


def _opens(text: str) -> bool:
    try:
        keyring().decrypt(text.encode())
    except InvalidToken:
        return False
    return True


def _refresh_statistics() -> None:
    """Update the database's statistics, without which lists are slow at first."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
