"""Where a backup may be restored: into nothing, over a hub when that is said, and into another release or database."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from hub.accounts.models import User
from hub.backups.errors import BackupRefused
from hub.backups.rows.frames import Header, write_frames
from hub.backups.rows.tables import Table, tables_of
from hub.backups.services import backing_up
from hub.storage.models import Blob
from hub.storage.services import store_bytes
from tests.e2e.services import own_services
from tests.factories.accounts import make_user
from tests.hub.backups.site import ROOT, Site, every_row, keep_blob, manage_command
from tests.run import postgres_problem

pytestmark = pytest.mark.django_db(transaction=True)
OLD = [("storage", "0002_blob_holders"), ("evals", "0002_by_visibility"), ("runs", "0005_sandbox_kind")]

USER, OWNER, RUN = (f"{digit * 8}-0000-7000-8000-{digit * 12}" for digit in "123")
DAY = "2025-03-01 10:00:00.25+00"


def test_a_hub_with_users_is_not_overwritten_unless_that_is_said(site: Site) -> None:
    make_user("alice")
    keep_blob()
    before = every_row()
    site.back_up()
    make_user("bob")
    with pytest.raises(BackupRefused, match="its database has 2 users") as caught:
        site.restore()
    assert "--overwrite" in caught.value.hint
    site.restore(overwrite=True)
    assert every_row() == before


def test_a_storage_with_other_blobs_is_refused_unless_that_is_said(site: Site) -> None:
    make_user("alice")
    site.back_up()
    site.wipe()
    foreign = store_bytes(b"of another hub")
    Blob.objects.all().delete()
    with pytest.raises(BackupRefused, match="the storage is not empty: 1 of its blobs"):
        site.restore()
    assert not User.objects.exists()
    site.restore(overwrite=True)
    assert site.store.stat(foreign.sha256) is not None


def test_a_backup_of_a_newer_hub_is_refused(site: Site) -> None:
    make_user("alice")
    tomorrow = MigrationRecorder.Migration.objects.create(app="runs", name="9999_of_tomorrow")
    site.back_up()
    tomorrow.delete()
    site.wipe()
    with pytest.raises(BackupRefused, match=r"a newer hub \(.*runs\.9999_of_tomorrow"):
        site.restore()
    assert not User.objects.exists()


@pytest.mark.matrix
def test_a_backup_of_an_older_hub_moves_to_the_other_database_and_this_release(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if connection.vendor == "postgresql":
        pytest.skip("the pass on SQLite does it, with Postgres as the other database")
    blob = store_bytes(b"a log of 2025")
    older = old_hub(blob.sha256)
    monkeypatch.setattr(backing_up, "write_frames", lambda header, _: older(header))
    site.back_up()
    with other_database(tmp_path / "new") as variables:
        command = manage_command("restore", str(tmp_path / "there"), "--identity", str(site.identity))
        subprocess.run(command, cwd=ROOT, env=variables, check=True, capture_output=True)
        shell = manage_command("shell", "-v0", "-c", "from tests.hub.backups.test_targets import tell; tell()")
        told = subprocess.run(shell, cwd=ROOT, env=variables, check=True, capture_output=True, text=True)
    assert json.loads(told.stdout.splitlines()[-1]) == {
        "user": [USER, "old-alice", True, "2025-03-01T10:00:00.250000+00:00"],
        "used": 13,  # counted by storage.0003
        "log": "two\nlines",
        "missing": 0,
        "blob": "a log of 2025",
        "vendor": "sqlite" if postgres_problem() else "postgresql",
    }


def old_rows(sha256: str) -> dict[str, dict[str, str]]:
    """What such a hub held, by table and column; columns that are absent were NULL."""
    names = dict.fromkeys(("password", "first_name", "last_name", "email"), "")
    person = {
        "id": USER,
        "username": "old-alice",
        "is_active": "t",
        "is_staff": "f",
        "is_superuser": "f",
        "unread": "0",
        "session_epoch": "0",
    }
    run = {"id": RUN, "kind": "eval", "state": "failed", "queue": "eval", "owner_id": OWNER, "created_by_id": USER}
    numbers = {"attempt": "1", "max_attempts": "3", "gpus": "0", "gpu_memory_mb": "0"}
    return {
        "storage_blob": {"sha256": sha256, "size": "13", "created_at": DAY},
        "storage_blobholder": {"id": "7", "blob_id": sha256, "holder": OWNER, "created_at": DAY},
        "accounts_user": {**person, **names, "date_joined": DAY},
        "accounts_owner": {"id": OWNER, "slug": "old-alice", "kind": "user", "user_id": USER, "created_at": DAY}
        | {"display_name": ""},
        "runs_run": {**run, **numbers, "subject": "s", "subject_url": "", "token_digest": "", "created_at": DAY},
        "runs_runlogpiece": {"id": "9", "run_id": RUN, "attempt": "1", "offset": "0", "text": "two\\nlines"},
    }


def old_hub(sha256: str) -> Callable[[Header], Iterator[bytes]]:
    """Makes the stream that a hub of before these migrations would have written: with its tables and columns."""
    loader = MigrationLoader(connection)
    nodes = loader.graph.node_map
    gone = {found for node in OLD for found in loader.graph.backwards_plan(node)} - set(OLD)
    left = set(nodes) - gone
    state = loader.project_state([key for key in left if not any(child.key in left for child in nodes[key].children)])
    rows = old_rows(sha256)

    def frames(header: Header) -> Iterator[bytes]:
        content = [(table, iter(_lines(table, rows.pop(table.name, None)))) for table in tables_of(state.apps)]
        assert not rows, "that hub had no such tables"
        return write_frames(header.model_copy(update={"migrations": tuple(sorted(left))}), content)

    return frames


def _lines(table: Table, row: dict[str, str] | None) -> list[bytes]:
    if row is None:
        return []
    assert set(row) <= {column.name for column in table.columns}
    return [("\t".join(row.get(column.name, "\\N") for column in table.columns) + "\n").encode()]


@contextmanager
def other_database(data: Path) -> Iterator[dict[str, str]]:
    """The variables of an empty hub on Postgres where that is reachable, else on SQLite."""
    data.mkdir()
    variables = {**os.environ, "HUB_DATA": str(data)}
    variables.pop("HUB_DATABASE_URL", None)
    if postgres_problem():
        yield variables
        return
    with own_services("hub_restored") as found:
        with psycopg.connect(found["HUB_DATABASE_URL"], autocommit=True) as there:
            there.execute("CREATE TABLE somebody_elses (id integer)")  # is left alone
        yield {**variables, **found}


def tell() -> None:
    """What the restored hub knows; runs in a process of its."""
    from hub.runs.models import RunLogPiece  # noqa: PLC0415
    from hub.storage.models import StorageUse  # noqa: PLC0415
    from hub.storage.queries import backend, open_blob  # noqa: PLC0415

    user = User.objects.get()
    log = RunLogPiece.objects.get()
    RunLogPiece.objects.create(run=log.run, attempt=1, offset=9, text="")  # numbers go on
    blob = Blob.objects.get()
    answer = {
        "user": [str(user.pk), user.username, user.is_active, user.date_joined.isoformat()],
        "used": StorageUse.objects.get().size,
        "log": log.text,
        "missing": len([found for found in Blob.objects.all() if backend().stat(found.pk) is None]),
        "blob": open_blob(blob.pk).read().decode(),
        "vendor": connection.vendor,
    }
    assert timezone.now() > user.date_joined
    print(json.dumps(answer))
