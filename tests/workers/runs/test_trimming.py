"""Folders stay within a budget by giving up what was used least recently, never what a live run may hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workers.runs.trimming import children, files, trim


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three things of 100 bytes, used at 1000, 2000 and 3000 s; "old" is a directory."""
    for name, moment in (("old/part/file", 1000), ("middle", 2000), ("new", 3000)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 100)
        os.utime(tmp_path / name.split("/")[0], (moment, moment))
    return tmp_path


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_least_recently_used_goes_first(folder: Path) -> None:
    assert trim(children(folder), max_bytes=200, unused_since=9000) == 1
    assert left(folder) == {"middle", "new"}


def test_what_fits_stays(folder: Path) -> None:
    assert trim(children(folder), max_bytes=300, unused_since=9000) == 0


def test_what_was_used_since_the_oldest_run_began_stays_whatever_the_budget(folder: Path) -> None:
    assert trim(children(folder), max_bytes=0, unused_since=1500) == 1
    assert left(folder) == {"middle", "new"}


def test_what_is_being_made_is_left_alone(folder: Path) -> None:
    (folder / ".unfinished").write_bytes(b"x" * 1000)
    os.utime(folder / ".unfinished", (1, 1))
    trim(children(folder), max_bytes=0, unused_since=9000)
    assert left(folder) == {".unfinished"}


def test_a_tree_is_trimmed_file_by_file(folder: Path) -> None:
    os.utime(folder / "old" / "part" / "file", (1000, 1000))
    trim(files(folder), max_bytes=100, unused_since=9000)
    assert [path.name for path in files(folder)] == ["new"]


def test_what_was_last_used_at_the_epoch_goes_first(folder: Path) -> None:
    os.utime(folder / "new", (0, 0))
    assert trim(children(folder), max_bytes=200, unused_since=9000) == 1
    assert left(folder) == {"old", "middle"}


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert trim(children(tmp_path / "none"), max_bytes=0, unused_since=9000) == 0
