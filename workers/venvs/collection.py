"""Deletes environments that were long unused, oldest first, until the store is within its limit; then unused trees."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from envhub.protocol.registry.builds import EnvironmentLock

from workers.runs.trimming import trim, unfinished
from workers.venvs.assembly import remove_tree
from workers.venvs.layout import LOCK_FILE
from workers.venvs.wheel_trees import read_tree, tree_name

MIN_IDLE_SECONDS = 24 * 3600.0  # longer than any run uses a box without asking for its environment again


@dataclass(frozen=True)
class Collected:
    """The result of a collection."""

    environments: int
    trees: int
    size_after: int


def collect(root: Path, *, max_bytes: int, now: float | None = None, min_idle: float = MIN_IDLE_SECONDS) -> Collected:
    """Bring the trees beneath `root` under `max_bytes`, without touching anything used within `min_idle` seconds.

    Half-made environments and trees whose maker was killed are deleted too.
    """
    moment = time.time() if now is None else now
    left = [*unfinished(root / "venvs"), *unfinished(root / "trees")]
    trim(left, max_bytes=0, unused_since=moment - min_idle)
    needs = {path.name: _needs(path) for path in (root / "venvs").glob("[0-9a-f]*")}
    last = {name: _last_use(root, name) for name in needs}
    removed, size = 0, _drop_trees(root, needs, moment, min_idle)[1]
    for name in sorted(needs, key=lambda one: last[one]):
        if size <= max_bytes or moment - last[name] < min_idle:
            break
        remove_tree(root / "venvs" / name)
        (root / "used" / name).unlink(missing_ok=True)
        del needs[name]
        removed += 1
        size = sum(_tree_sizes(root, set().union(*needs.values())).values())
    trees, size = _drop_trees(root, needs, moment, min_idle)
    return Collected(removed, trees, size)


def _needs(environment: Path) -> set[str]:
    try:
        lock = EnvironmentLock.model_validate_json((environment / LOCK_FILE).read_text())
    except (OSError, ValueError):
        return set()
    tag = f"cpython-{lock.python.replace('.', '')}"
    return {tree_name(wheel.sha256, tag) for wheel in lock.wheels}


def _last_use(root: Path, name: str) -> float:
    try:
        return (root / "used" / name).stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _tree_sizes(root: Path, names: set[str]) -> dict[str, int]:
    trees = {name: read_tree(root / "trees" / name) for name in names}
    return {name: tree.size for name, tree in trees.items() if tree is not None}


def _drop_trees(root: Path, needs: dict[str, set[str]], now: float, min_idle: float) -> tuple[int, int]:
    """Delete old trees that no environment links to; return their number and the size of the rest."""
    wanted = set().union(*needs.values())
    dropped, size = 0, 0
    for path in (root / "trees").glob("[0-9a-f]*"):
        tree = read_tree(path)
        if path.name not in wanted and now - path.stat().st_mtime > min_idle:
            shutil.rmtree(path, ignore_errors=True)
            dropped += 1
        elif tree is not None:
            size += tree.size
    return dropped, size
