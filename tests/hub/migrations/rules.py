"""What a migration must not do while hubs of this release and the one before it are at work on Postgres.

Two questions: does it hold a lock that stops reads or writes for as long as a table is large, and does the earlier
release still work with what it leaves. Each rule names its way out. A migration that has thought of it says why in
`blocks = "..."`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib.postgres import operations as postgres
from django.db import migrations, models
from django.db.migrations.migration import Migration
from django.db.models.fields import NOT_PROVIDED

TWO_RELEASES = "stop using it in one release, remove it in the next (`blocks` says which had stopped)"
WAYS = {
    "RemoveField": f"the earlier release still reads and writes the column: {TWO_RELEASES}",
    "DeleteModel": f"the earlier release still reads the table: {TWO_RELEASES}",
    "RenameField": "the earlier release knows the old name: add a field, write both, remove the old one later",
    "RenameModel": "the earlier release knows the old table: keep it, as `db_table`",
    "AlterModelTable": "the earlier release knows the old table",
    "AddIndex": "it stops writes while it reads the table: AddIndexConcurrently, in a migration that is not atomic",
    "RemoveIndex": "it waits for every query with a lock that stops all others: RemoveIndexConcurrently",
    "AddConstraint": "it stops writes while it reads the table: AddConstraintNotValid, then ValidateConstraint in "
    "another migration; of a UniqueConstraint make the index concurrently first",
}
CONCURRENT = (postgres.AddIndexConcurrently, postgres.RemoveIndexConcurrently)


def problems(migration: Migration) -> Iterator[str]:
    """In words, each with the way out; none for what is done to tables that the migration itself makes."""
    if getattr(migration, "blocks", ""):
        return
    made = {one.name_lower for one in migration.operations if isinstance(one, migrations.CreateModel)}
    schema = [one for one in _flat(migration.operations) if not isinstance(one, migrations.RunPython)]
    for operation in _flat(migration.operations):
        if getattr(operation, "model_name_lower", "") in made:
            continue
        for problem in _problems_of(operation, migration, alone=not schema):
            yield f"{migration.app_label}.{migration.name}: {operation.describe()}: {problem}"


def _flat(operations: Any) -> Iterator[Any]:
    """What is done to the database; state operations are not."""
    for one in operations:
        if isinstance(one, migrations.SeparateDatabaseAndState):
            yield from _flat(one.database_operations)
        else:
            yield one


def _problems_of(operation: Any, migration: Migration, *, alone: bool) -> Iterator[str]:
    kind = type(operation).__name__
    if isinstance(operation, CONCURRENT):
        if migration.atomic:
            yield "Postgres does this outside of a transaction only: `atomic = False`"
    elif isinstance(operation, postgres.AddConstraintNotValid | postgres.ValidateConstraint):
        return
    elif kind in WAYS:
        yield WAYS[kind]
    elif isinstance(operation, migrations.AddField):
        yield from _added(operation.field)
    elif isinstance(operation, migrations.AlterField):
        yield "a change of type rewrites the table, NOT NULL reads all of it: add a field, or say why this is neither"
    elif isinstance(operation, migrations.RunPython | migrations.RunSQL):
        if migration.atomic or not alone:
            yield "it holds its locks until its last row: in batches, alone in a migration with `atomic = False`"
    elif isinstance(operation, migrations.AlterUniqueTogether | migrations.AlterIndexTogether):
        yield WAYS["AddIndex"]


def _added(field: models.Field[Any, Any]) -> Iterator[str]:
    if not field.null and field.db_default is NOT_PROVIDED and not field.many_to_many:
        yield "rows that the earlier release inserts have no value for it: null=True or db_default"
    if field.unique or (field.db_index and not field.is_relation):
        yield "its index is made under a lock that stops writes: add the field first, then AddIndexConcurrently"
    if field.is_relation and field.db_constraint and field.db_index and not field.many_to_many:
        yield "its index and its constraint are made under locks: db_index=False, and the index concurrently"
