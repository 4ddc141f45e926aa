"""Files on this worker's disk by their hash."""

from __future__ import annotations

import os
import time
from pathlib import Path

from workers.builds.wheel_files import WheelFiles


def test_what_is_added_again_is_in_use_again(tmp_path: Path) -> None:
    files = WheelFiles(tmp_path)
    path, _ = files.add(b"wheel")
    os.utime(path, (1, 1))
    assert files.add(b"wheel")[0] == path
    assert time.time() - path.stat().st_mtime < 60
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
