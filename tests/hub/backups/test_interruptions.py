"""Cut off anywhere, a backup leaves the earlier ones as they were, and a restore can be run again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from hub.accounts.models import User
from hub.backups.rows import loading
from hub.storage.models import GarbagePause
from tests.factories.accounts import make_user
from tests.hub.backups.site import LATER, ROOT, Site, every_row, hub_variables, keep_blob, manage_command, wrong_bytes

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_killed_backup_does_not_exist_and_the_next_goes_on_where_it_was(site: Site, tmp_path: Path) -> None:
    make_user("alice")
    keep_blob()
    earlier = site.back_up()
    blobs = [keep_blob() for _ in range(8)]
    stuck = tmp_path / "data/blobs" / blobs[0].sha256[:2] / blobs[0].sha256[2:4] / blobs[0].sha256
    content = stuck.read_bytes()
    stuck.unlink()
    os.mkfifo(stuck)  # whoever opens it waits for ever
    command = manage_command("backup", str(tmp_path / "there"))
    variables = hub_variables(tmp_path / "data", HUB_BACKUP_RECIPIENTS=f'["{site.recipients[0]}"]')
    process = subprocess.Popen(command, cwd=ROOT, env=variables, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(site.files("objects")) < 8 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    stuck.unlink()
    stuck.write_bytes(content)
    assert [path for path in site.files("backups") if path.endswith("manifest")] == [f"backups/{earlier.id}/manifest"]
    assert site.verify(decrypt=True) == []
    GarbagePause.objects.update(expires_at=timezone.now() - timedelta(seconds=1))  # a minute later
    made = site.back_up()
    assert (made.added, made.blobs) == (1, 9)
    assert {path.split("/")[1] for path in site.files("backups")} == {earlier.id, made.id}
    assert site.verify(decrypt=True) == []


def test_looking_at_a_destination_disturbs_no_backup_that_writes_there(site: Site) -> None:
    site.back_up()
    with site.destination.writing("backups/20261125T000000.000000Z/database") as file:
        file.write(b"half")
        assert len(site.files("backups")) == 3
        file.write(b"half")
    assert site.content("backups/20261125T000000.000000Z/database") == b"halfhalf"


def test_what_a_killed_backup_was_writing_is_removed_after_a_day(site: Site, tmp_path: Path) -> None:
    site.back_up()
    partial = tmp_path / "there/backups/.writing-k1ll3d"
    partial.write_bytes(b"half")
    assert "half" not in str(site.files())
    assert partial.exists()
    os.utime(partial, (0, time.time() - LATER.total_seconds()))
    site.files()
    assert not partial.exists()


@pytest.mark.parametrize("at", ["blobs", "rows"])
def test_a_restore_that_was_cut_off_is_run_again(site: Site, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_user("alice")
    for _ in range(5):
        keep_blob()
    before = every_row()
    site.back_up()
    site.wipe()
    with monkeypatch.context() as now:
        cut_off(site, at, now)
        with pytest.raises(KeyboardInterrupt):
            site.restore()
    assert not User.objects.exists()
    site.restore()
    assert (every_row(), wrong_bytes(site.store)) == (before, [])
    assert any("were there" in line and ", 0 were there" not in line for line in site.said)


def cut_off(site: Site, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write, number_of, calls = site.store.write, loading._by_table, []

    def writing(sha256: str, source: Any) -> int:
        calls.append(sha256)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return write(sha256, source)

    def tables(pieces: Any) -> Any:
        for table, lines in number_of(pieces):
            if table.name == "registry_storedwheel":
                raise KeyboardInterrupt
            yield table, lines

    if at == "blobs":
        monkeypatch.setattr(site.store, "write", writing)
    else:
        monkeypatch.setattr(loading, "_by_table", tables)
