"""A package that keeps files beside itself works in its box, and leaves nothing for the next one."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.workers.wheels import Shelf, lock_of, locked, make_wheel
from workers.rollouts.boxes import PYTHON, environment_box
from workers.sandbox import BoxSpec, backend
from workers.settings import WorkerEnvironment
from workers.venvs.environment import ensure_environment

KEEPER = """
from pathlib import Path
folder = Path(__file__).parent / "cache"
def keep():
    folder.mkdir(exist_ok=True)
    (folder / "kept.txt").write_text("kept")
    (Path(__file__).parent / "shipped.txt").open("a").write(" and more")
    return sorted(path.name for path in folder.iterdir())
"""
CODE = """
import mine, dep, site, pathlib
pathlib.Path(site.getsitepackages()[0], "data").mkdir()
print(mine.keep(), dep.keep())
"""


@pytest.mark.sandbox
async def test_a_package_and_its_dependency_write_beside_themselves() -> None:
    with tempfile.TemporaryDirectory(prefix="sb-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        sources = {one: {f"{one}/__init__.py": KEEPER, f"{one}/shipped.txt": "shipped"} for one in ("mine", "dep")}
        mine, dep = (make_wheel(folder, one, files=files) for one, files in sources.items())
        lock = lock_of(locked(mine, owned=True), locked(dep))
        venv = await ensure_environment(lock, root=folder / "venvs", fetch=Shelf(mine, dep))
        (sockets := folder / "sockets").mkdir()
        spec: BoxSpec = environment_box(venv, sockets, WorkerEnvironment(), python=lock.python, network="none")
        for _ in range(2):
            async with backend("bwrap", folder / "boxes").create(spec) as box:
                result = await box.exec([PYTHON, "-c", CODE])
            assert result.stdout == b"['kept.txt'] ['kept.txt']\n", result.stderr
        assert {path.read_text() for path in folder.rglob("venvs/**/shipped.txt")} == {"shipped"}
