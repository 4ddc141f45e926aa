"""Wheels of more than a gigabyte are read and unpacked; where the operator's limit is passed, it says so."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from envhub.packaging.archives.reading import DEFAULT_BUDGET

from tests.workers.wheels import Shelf, lock_of, locked, make_wheel
from workers.venvs.environment import ensure_environment
from workers.venvs.errors import BuildTooLarge
from workers.venvs.wheel_checks import check_wheel


def test_a_wheel_of_more_than_a_push_may_have_is_read(tmp_path: Path) -> None:
    """Its metadata was read under the limits of a push, and a wheel over a gigabyte refused."""
    wheel = make_wheel(tmp_path, "large")
    with zipfile.ZipFile(wheel, "a", zipfile.ZIP_DEFLATED) as archive:
        for number in range(DEFAULT_BUDGET.max_files):
            archive.writestr(f"large/{number}", "")
    assert check_wheel(wheel, wheel.name).name == "large"


async def test_what_passes_the_operators_limit_names_the_largest_and_the_setting(tmp_path: Path) -> None:
    large, small = make_wheel(tmp_path, "large", files={"large.bin": "x" * 50_000}), make_wheel(tmp_path, "small")
    lock = lock_of(locked(small), locked(large))
    with pytest.raises(BuildTooLarge, match=r"the largest: large-1\.0") as caught:
        await ensure_environment(lock, root=tmp_path / "root", fetch=Shelf(large, small), max_bytes=40_000)
    assert "WORKER_BUILD_MB" in caught.value.hint
    assert not list((tmp_path / "root" / "trees").glob("*"))
