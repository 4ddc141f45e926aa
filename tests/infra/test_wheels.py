"""The same source gives the same wheel, wherever and whenever it is built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.infra.tools import ROOT

PARTS = {"hub": ["pyproject.toml", "README.md", "LICENSE", "hub", "workers"], "sdk": ["sdk"]}


def copy(names: list[str], to: Path, *, day: int, mode: int) -> Path:
    """As somebody else's checkout would have it: another path, times, permissions and order in the folder."""
    to.mkdir()
    for name in sorted(names, reverse=bool(day)):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "dist"))
        else:
            shutil.copy(source, to)
    for path in to.rglob("*"):
        if path.is_file():
            path.chmod(mode)
        os.utime(path, (day * 86400, day * 86400))
    return to / "sdk" if names == ["sdk"] else to


def wheel(source: Path, out: Path) -> bytes:
    """Built by hatchling, without network."""
    env = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    subprocess.run(command, cwd=source, env=env, check=True, capture_output=True, timeout=60)
    (built,) = out.glob("*.whl")
    return built.read_bytes()


@pytest.mark.parametrize("part", PARTS)
def test_a_wheel_depends_on_nothing_but_the_source(part: str, tmp_path: Path) -> None:
    here = copy(PARTS[part], tmp_path / "a", day=20_000, mode=0o644)
    there = copy(PARTS[part], tmp_path / "elsewhere", day=0, mode=0o664)
    first, second = wheel(here, tmp_path / "first"), wheel(there, tmp_path / "second")
    assert len(first) > 100_000
    assert first == second
