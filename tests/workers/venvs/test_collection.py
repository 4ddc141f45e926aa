from __future__ import annotations

import os
import time
from pathlib import Path

from tests.workers.wheels import Shelf, lock_of, locked, make_wheel
from workers.venvs.collection import collect
from workers.venvs.environment import ensure_environment

DAY = 86_400.0


async def two_environments(tmp_path: Path) -> tuple[Path, Path, Path]:
    """An environment used long ago, one used recently, and their root."""
    old, new = (make_wheel(tmp_path, name, files={f"{name}.py": "#" * 50_000}) for name in ("old", "new"))
    root, shelf = tmp_path / "root", Shelf(old, new)
    first = await ensure_environment(lock_of(locked(old)), root=root, fetch=shelf)
    second = await ensure_environment(lock_of(locked(new)), root=root, fetch=shelf)
    os.utime(root / "used" / first.name, (time.time() - 9 * DAY,) * 2)
    for tree in (root / "trees").iterdir():
        os.utime(tree, (time.time() - 9 * DAY,) * 2)
    return root, first, second


async def test_the_least_recently_used_goes_first_with_its_trees(tmp_path: Path) -> None:
    root, first, second = await two_environments(tmp_path)
    collected = collect(root, max_bytes=80_000)
    assert (collected.environments, collected.trees) == (1, 1)
    assert (first.exists(), second.exists()) == (False, True)
    assert collected.size_after < 80_000


async def test_what_is_within_the_bound_stays(tmp_path: Path) -> None:
    root, first, second = await two_environments(tmp_path)
    assert collect(root, max_bytes=10_000_000).environments == 0
    assert first.exists()
    assert second.exists()


async def test_what_was_used_recently_stays_whatever_the_bound(tmp_path: Path) -> None:
    root, first, second = await two_environments(tmp_path)
    assert collect(root, max_bytes=0).environments == 1
    assert (first.exists(), second.exists()) == (False, True)


async def test_what_a_killed_maker_left_goes_once_no_maker_can_be_alive(tmp_path: Path) -> None:
    root, first, _ = await two_environments(tmp_path)
    left = [root / place / f".making-{age}" for place in ("venvs", "trees") for age in ("old", "new")]
    for folder in left:
        (folder / "lib").mkdir(parents=True)
        (folder / "lib" / "half.py").write_text("#")
        if folder.name.endswith("old"):
            os.utime(folder, (time.time() - 9 * DAY,) * 2)
    collect(root, max_bytes=10_000_000)
    assert [folder.exists() for folder in left] == [False, True, False, True]
    assert first.exists()
