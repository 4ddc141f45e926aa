"""A migration that waits for a lock lets everybody else through, and is tried again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, migrations, models
from django.db.migrations.loader import MigrationLoader

from tests import backends

pytestmark = [
    pytest.mark.skipif(backends.BACKEND != "services", reason="SQLite has no lock of a table"),
    pytest.mark.django_db(transaction=True),
]
TABLE = "bundles_signingkey"


@pytest.fixture
def pending(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A migration after the last one of `bundles`; undone afterwards."""
    operation = migrations.AddField("signingkey", "note", models.TextField(null=True))
    one = type("Migration", (migrations.Migration,), {"dependencies": [("bundles", "0001_initial")]})
    one.operations = [operation]
    load = MigrationLoader.load_disk

    def with_one_more(self: MigrationLoader) -> None:
        load(self)
        self.disk_migrations["bundles", "0002_note"] = one("0002_note", "bundles")

    monkeypatch.setattr(MigrationLoader, "load_disk", with_one_more)
    yield
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {TABLE} DROP COLUMN IF EXISTS note")
        cursor.execute("DELETE FROM django_migrations WHERE app = 'bundles' AND name = '0002_note'")


def holding() -> psycopg.Connection[tuple[object, ...]]:
    """Somebody who has read the table and whose transaction goes on."""
    name = str(connection.settings_dict["NAME"])
    held = psycopg.connect(backends.DATABASE_URL, dbname=name)
    held.execute(f"SELECT count(*) FROM {TABLE}")
    return held


def migrate(**options: float) -> None:
    call_command("migrate", "bundles", verbosity=0, interactive=False, **options)


def columns() -> set[str]:
    with connection.cursor() as cursor:
        return {column.name for column in connection.introspection.get_table_description(cursor, TABLE)}


def test_it_is_tried_until_the_table_is_free(pending: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hub.core.management.commands.migrate.PAUSE_S", 0.1)
    held = holding()
    threading.Timer(1.0, held.close).start()
    began = time.monotonic()
    migrate(lock_timeout=0.2)
    assert time.monotonic() - began > 0.8
    assert "note" in columns()


def test_when_it_is_never_free_it_says_where_to_look(pending: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hub.core.management.commands.migrate.PAUSE_S", 0.0)
    with holding(), pytest.raises(CommandError, match="pg_stat_activity"):
        migrate(lock_timeout=0.1, lock_tries=2)
    assert "note" not in columns()
