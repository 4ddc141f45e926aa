"""A worker whose disk is nearly full takes no new runs, and says so once."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from workers.tasks.disk_room import DiskRoom


def test_room_is_what_is_free_beyond_the_reserve(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    assert DiskRoom(tmp_path, 0).is_enough()
    assert not DiskRoom(tmp_path, 2 * free).is_enough()


def test_a_full_disk_is_told_once_and_so_is_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    room, free = DiskRoom(tmp_path, 100), [500, 50, 40, 300, 300]
    usage = type(shutil.disk_usage(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1000, 0, free.pop(0)))
    with caplog.at_level(logging.WARNING):
        assert [room.is_enough() for _ in range(5)] == [True, False, False, True, True]
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
