"""Migrations after the last release go beside hubs at work: each rule catches what it names, and nothing more."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.postgres.operations import AddConstraintNotValid, AddIndexConcurrently, ValidateConstraint
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.models import Q, Value

from tests.hub.migrations.baseline import FILE
from tests.hub.migrations.rules import problems

CHECK = models.CheckConstraint(condition=Q(pk__gt=0), name="positive")
INDEX = models.Index(fields=["name"], name="by_name")


def later(app: str, name: str) -> bool:
    """Than what the last release has."""
    return name > json.loads(FILE.read_text()).get(app, "")


def test_no_migration_after_the_last_release_stops_a_hub_at_work() -> None:
    own = (one for one in MigrationLoader(None).disk_migrations.values() if type(one).__module__.startswith("hub."))
    found = [problem for one in own if later(one.app_label, one.name) for problem in problems(one)]
    assert found == [], (
        "before the first release, `python -m tests.hub.migrations.baseline` takes new migrations into the baseline"
    )


def test_the_baseline_names_migrations_that_there_are() -> None:
    there = MigrationLoader(None).disk_migrations
    assert all((app, name) in there for app, name in json.loads(FILE.read_text()).items())


def made(*operations: Any, **fields: Any) -> Migration:
    one = type("Migration", (Migration,), {"operations": list(operations), **fields})("0002_x", "app")
    return one


def field(**options: Any) -> Any:
    return models.CharField(max_length=8, **options)


def nothing(apps: Any, editor: Any) -> None:
    """A data migration."""


BLOCKS = {
    "a column without a default of the database": migrations.AddField("m", "f", field(default="x")),
    "a column with an index": migrations.AddField("m", "f", field(null=True, db_index=True)),
    "a unique column": migrations.AddField("m", "f", field(null=True, unique=True)),
    "a foreign key": migrations.AddField("m", "f", models.ForeignKey("n", models.CASCADE, null=True)),
    "another type": migrations.AlterField("m", "f", models.TextField()),
    "a column less": migrations.RemoveField("m", "f"),
    "a column of another name": migrations.RenameField("m", "f", "g"),
    "a table less": migrations.DeleteModel("m"),
    "an index": migrations.AddIndex("m", INDEX),
    "a constraint": migrations.AddConstraint("m", CHECK),
    "an index inside of a transaction": AddIndexConcurrently("m", INDEX),
    "rows in one transaction": migrations.RunPython(nothing),
    "SQL in one transaction": migrations.RunSQL("UPDATE m SET f = 1"),
    "what is hidden in the database's half": migrations.SeparateDatabaseAndState([migrations.RemoveField("m", "f")]),
}
GOES = {
    "a column that may be null": made(migrations.AddField("m", "f", field(null=True))),
    "a column with a default of the database": made(migrations.AddField("m", "f", field(db_default=Value("x")))),
    "a new table with all its indexes": made(
        migrations.CreateModel("M", [("id", models.BigAutoField(primary_key=True)), ("name", field(unique=True))]),
        migrations.AddIndex("m", INDEX),
        migrations.AddConstraint("m", CHECK),
    ),
    "an index beside the table's use": made(AddIndexConcurrently("m", INDEX), atomic=False),
    "a constraint for new rows": made(AddConstraintNotValid("m", CHECK)),
    "the rest of a constraint": made(ValidateConstraint("m", "positive")),
    "rows in batches": made(migrations.RunPython(nothing), atomic=False),
    "what the code alone sees": made(
        migrations.SeparateDatabaseAndState(state_operations=[migrations.RemoveField("m", "f")])
    ),
    "what somebody has thought of": made(migrations.RemoveField("m", "f"), blocks="0.2 has stopped using it"),
    "a change of what only forms see": made(migrations.AlterModelOptions("m", {"ordering": ["name"]})),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_what_would_stop_a_hub_is_found(name: str) -> None:
    found = list(problems(made(BLOCKS[name])))
    assert len(found) == 1
    assert found[0].startswith("app.0002_x: ")


@pytest.mark.parametrize("name", GOES)
def test_what_goes_beside_a_hub_is_let_through(name: str) -> None:
    assert list(problems(GOES[name])) == []


def test_rows_and_columns_in_one_migration_are_one_lock() -> None:
    both = made(migrations.AddField("m", "f", field(null=True)), migrations.RunPython(nothing), atomic=False)
    assert "alone in a migration" in next(problems(both))
