"""Files on this worker's disk by their hash."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from workers.builds.sources.wheel_files import WheelFiles


def test_what_is_added_again_is_in_use_again(tmp_path: Path) -> None:
    files = WheelFiles(tmp_path)
    path, _ = files.add(b"wheel")
    os.utime(path, (1, 1))
    assert files.add(b"wheel")[0] == path
    assert time.time() - path.stat().st_mtime < 60
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_what_is_cleared_away_while_it_is_added_again_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = WheelFiles(tmp_path)
    path, sha256 = files.add(b"wheel")
    link = os.link

    def link_and_clear_away(source: str, target: str | Path) -> None:
        try:
            link(source, target)
        finally:
            path.unlink()

    monkeypatch.setattr(os, "link", link_and_clear_away)
    assert files.add(b"wheel") == (path, sha256)
    assert path.read_bytes() == b"wheel"
