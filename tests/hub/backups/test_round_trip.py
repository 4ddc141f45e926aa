"""A hub with everything in it comes back as it was: each row of each table, each byte of each blob."""

from __future__ import annotations

import re

import pytest
from django.db import connection

from hub.registry.models import Environment
from hub.runs.models import Run, RunLogPiece
from hub.storage.models import Blob
from tests.factories.training_runs import adapter_report, checkpoint_report, report
from tests.hub.api.world import make_world
from tests.hub.backups.site import Site, every_row, wrong_bytes

pytestmark = pytest.mark.django_db(transaction=True)
ODD = "tab\there\nline\r\\N \\. \\t \\\\ \b\f\v ' \" é 漢 🙂 \u2028 {}"


def fill() -> None:
    """A push, evaluations, trainings, secrets, tokens, sandboxes, workers; and texts that trip formats up."""
    world = make_world()
    report(world.training, checkpoint_report(1))
    report(world.training, adapter_report(1))
    RunLogPiece.objects.create(run=world.run, attempt=1, offset=0, text=ODD)
    RunLogPiece.objects.create(run=world.run, attempt=1, offset=1, text="\\N")
    Run.objects.filter(pk=world.run.pk).update(
        progress={"text": ODD, "deep": [None, 1e-7, 1.5e300, "\\"]}, failure=None
    )
    Environment.objects.update(description=ODD[:200], tags=["a\\b", "\n"])


@pytest.mark.parametrize("kind", ["site", "s3_site"])
def test_a_restored_hub_is_the_one_that_was_backed_up(kind: str, request: pytest.FixtureRequest) -> None:
    site: Site = request.getfixturevalue(kind)
    fill()
    before = every_row()
    assert sum(1 for rows in before.values() if rows) > 30, "hardly anything to lose"
    made = site.back_up()
    assert (made.rows, made.blobs) == (sum(map(len, before.values())), Blob.objects.count())
    assert site.verify() == site.verify(decrypt=True) == []
    site.wipe()
    site.restore()
    before.pop("backups_lastbackup")
    after = every_row()
    assert after.pop("backups_lastbackup") == []
    assert after == before
    assert wrong_bytes(site.store) == []


def test_keys_and_indexes_are_as_before(site: Site) -> None:
    fill()
    site.back_up()
    site.wipe()
    before = schema()
    site.restore()
    assert schema() == before
    assert len(before) > 40


def schema() -> list[tuple[str, ...]]:
    """Each index and constraint. Postgres moves the casts and brackets of a condition that it reads back."""
    queries = {
        "sqlite": "SELECT name, coalesce(sql, '') FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY 1",
        "postgresql": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' UNION ALL"
        " SELECT conname, conrelid::regclass || pg_get_constraintdef(oid) || condeferrable || condeferred"
        " FROM pg_constraint WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2",
    }
    with connection.cursor() as cursor:
        cursor.execute(queries[connection.vendor])
        rows = cursor.fetchall()
    if connection.vendor == "sqlite":
        return rows
    return [tuple(re.sub(r"::[a-z ]+(\[\])?|[()]", "", text) for text in row) for row in rows]


def test_new_rows_of_a_restored_hub_get_numbers_of_their_own(site: Site) -> None:
    fill()
    site.back_up()
    site.wipe()
    if connection.vendor == "postgresql":  # as in a new database
        with connection.cursor() as cursor:
            cursor.execute("SELECT setval(pg_get_serial_sequence('runs_runlogpiece', 'id'), 1, false)")
    site.restore()
    last = RunLogPiece.objects.latest("pk")
    new = RunLogPiece.objects.create(run=last.run, attempt=1, offset=99, text="")
    assert new.pk > last.pk
