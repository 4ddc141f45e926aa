"""Makes the environment of a lock, once: wheel trees linked together, frozen, shared by all with that lock.

The owner's own wheels, which change with every push, lie over an environment of all the others, which rarely change.
`ensure_environment` is what builds and evaluations call. The result is bound read-only into boxes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from envhub.protocol.builds import EnvironmentLock, LockedWheel

from workers.runs.file_lock import alone
from workers.venvs import interpreters
from workers.venvs.assembly import assemble, assemble_over, freeze, remove_tree
from workers.venvs.errors import BadWheel, NoPython
from workers.venvs.interpreters import Interpreter
from workers.venvs.layout import LOCK_FILE
from workers.venvs.tool_programs import TOOLS, install_tools
from workers.venvs.wheel_checks import CheckedWheel, check_wheel
from workers.venvs.wheel_trees import Tree, make_trees, read_tree, tree_path

Fetch = Callable[[LockedWheel], Awaitable[Path]]  # a local file with the wheel's bytes; they are verified here
CONCURRENT_FETCHES = 8
LAYOUT = 2  # part of every key: raise it when environments are laid out differently


def environment_key(lock: EnvironmentLock) -> str:
    """The name of the lock's environment: a hash over its wheels, Python, platform and tools."""
    wheels = sorted((wheel.tool, wheel.name, wheel.version, wheel.filename, wheel.sha256) for wheel in lock.wheels)
    content = json.dumps([LAYOUT, lock.python, lock.platform, wheels])
    return hashlib.sha256(content.encode()).hexdigest()


async def ensure_environment(lock: EnvironmentLock, *, root: Path, fetch: Fetch) -> Path:
    """The frozen environment of `lock` beneath `root`, with `bin/python`. `fetch` is called for wheels not seen before.

    Raises NoPython (this worker lacks the lock's Python or is another platform), BadWheel, DangerousWheel, ToolFailed.
    """
    interpreter = interpreters.exactly(lock.python)
    if lock.platform != interpreters.host_platform():
        raise NoPython(f"the version was built for {lock.platform}; this worker is {interpreters.host_platform()}")
    key = environment_key(lock)
    final = root / "venvs" / key
    for folder in (root, root / "venvs", root / "used"):
        folder.mkdir(parents=True, exist_ok=True)
    root.chmod(0o755)
    base: Path | None = None
    if any(_is_own(wheel) for wheel in lock.wheels):
        others = tuple(wheel for wheel in lock.wheels if not _is_own(wheel))
        base = await ensure_environment(lock.model_copy(update={"wheels": others}), root=root, fetch=fetch)
    async with alone(root / "locks" / f"{key}.lock"):
        if not final.exists():
            own = tuple(wheel for wheel in lock.wheels if base is None or _is_own(wheel))
            trees = await _trees(own, interpreter, root=root, fetch=fetch)
            await asyncio.to_thread(_make, final, lock, trees, interpreter, base)
        (root / "used" / key).touch()
    return final


def _is_own(wheel: LockedWheel) -> bool:
    return wheel.owned and not wheel.tool


def _make(
    final: Path, lock: EnvironmentLock, trees: dict[str, Tree], interpreter: Interpreter, base: Path | None
) -> None:
    made = Path(tempfile.mkdtemp(prefix=".making-", dir=final.parent))
    try:
        if base is None:
            _assemble_all(made, lock, trees, interpreter)
        else:
            own = [trees[wheel.sha256] for wheel in lock.wheels if _is_own(wheel)]
            assemble_over(base, made, own, interpreter)
        (made / LOCK_FILE).write_text(lock.model_dump_json())
        freeze(made)
        os.rename(made, final)
    except BaseException:
        remove_tree(made)
        raise


def _assemble_all(made: Path, lock: EnvironmentLock, trees: dict[str, Tree], interpreter: Interpreter) -> None:
    assemble(made, [trees[wheel.sha256] for wheel in lock.wheels if not wheel.tool], interpreter)
    tools = sorted({wheel.tool for wheel in lock.wheels if wheel.tool})
    for number, tool in enumerate(tools):
        own = [trees[wheel.sha256] for wheel in lock.wheels if wheel.tool == tool]
        assemble(made / TOOLS / str(number), own, interpreter)
    install_tools(made, tools)


async def _trees(
    wheels: Iterable[LockedWheel], interpreter: Interpreter, *, root: Path, fetch: Fetch
) -> dict[str, Tree]:
    """The trees of all wheels by SHA-256, made where they are missing."""
    places = {wheel.sha256: tree_path(root / "trees", wheel.sha256, interpreter) for wheel in wheels}
    if any(read_tree(place) is None for place in places.values()):
        async with alone(root / "locks" / "trees.lock"):
            missing = [wheel for wheel in wheels if read_tree(places[wheel.sha256]) is None]
            checked = await _fetch_all(missing, fetch)
            await make_trees(checked, trees=root / "trees", interpreter=interpreter)
    found = {sha256: read_tree(place) for sha256, place in places.items()}
    if lost := [sha256 for sha256, tree in found.items() if tree is None]:
        raise BadWheel(f"the trees of {len(lost)} wheels were deleted while the environment was made")
    return {sha256: tree for sha256, tree in found.items() if tree is not None}


async def _fetch_all(wheels: Iterable[LockedWheel], fetch: Fetch) -> list[tuple[str, CheckedWheel]]:
    limit = asyncio.Semaphore(CONCURRENT_FETCHES)

    async def one(wheel: LockedWheel) -> tuple[str, CheckedWheel]:
        async with limit:
            path = await fetch(wheel)
            return wheel.sha256, await asyncio.to_thread(_verified, path, wheel)

    return list(await asyncio.gather(*(one(wheel) for wheel in wheels)))


def _verified(path: Path, wheel: LockedWheel) -> CheckedWheel:
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != wheel.sha256:
        raise BadWheel(f"{wheel.filename} is not the file that the lock names (sha256 {found[:12]}...)")
    return check_wheel(path, wheel.filename)
