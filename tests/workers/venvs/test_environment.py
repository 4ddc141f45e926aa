from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from tests.workers.wheels import Shelf, lock_of, locked, make_wheel
from workers.venvs.assembly import base_of, remove_tree
from workers.venvs.environment import ensure_environment, environment_key
from workers.venvs.errors import BadWheel, NoPython
from workers.venvs.interpreters import present

MODULE = {"greeter/__init__.py": "def main():\n    print('hello from', __file__)\n    return 0\n"}
ENTRY = {"greeter-1.0.dist-info/entry_points.txt": "[console_scripts]\ngreet = greeter:main\n"}


def started(environment: Path, *argv: str) -> str:
    """Runs a program of an environment that this test made itself of harmless wheels."""
    return subprocess.run(argv, capture_output=True, text=True, check=True, cwd=environment).stdout


async def test_an_environment_runs_its_packages_and_their_scripts(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "greeter", files={**MODULE, **ENTRY})
    environment = await ensure_environment(lock_of(locked(wheel)), root=tmp_path / "root", fetch=Shelf(wheel))
    assert f"hello from {environment}" in started(environment, str(environment / "bin/greet"))
    assert "1.0" in started(
        environment, f"{environment}/bin/python", "-c", "import importlib.metadata as m; print(m.version('greeter'))"
    )


async def test_sources_are_compiled_and_the_byte_code_is_used(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "greeter", files=MODULE)
    environment = await ensure_environment(lock_of(locked(wheel)), root=tmp_path / "root", fetch=Shelf(wheel))
    code = "import greeter; print(greeter.__cached__); print(greeter.main.__code__.co_filename)"
    cached, source = started(environment, f"{environment}/bin/python", "-c", code).split()
    assert Path(cached).is_file()
    assert source == str(next(environment.glob("lib/python*/site-packages/greeter/__init__.py")))


@pytest.mark.parametrize("python", [one.short for one in present()])
async def test_every_python_gets_the_byte_code_of_a_large_wheel(tmp_path: Path, python: str) -> None:
    wheel = make_wheel(tmp_path, "large", files={f"large/m{number}.py": "v = 1\n" for number in range(300)})
    lock = lock_of(locked(wheel)).model_copy(update={"python": python})
    environment = await ensure_environment(lock, root=tmp_path / "root", fetch=Shelf(wheel))
    assert len(list(environment.rglob("large/__pycache__/m*.pyc"))) == 300


async def test_a_source_that_does_not_compile_does_not_spoil_the_others(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "greeter", files={**MODULE, "greeter/old.py": "print 'python 2'\n"})
    environment = await ensure_environment(lock_of(locked(wheel)), root=tmp_path / "root", fetch=Shelf(wheel))
    assert [path.stem.split(".")[0] for path in environment.rglob("*.pyc")] == ["__init__"]


async def test_an_environment_has_the_modes_of_an_installation(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "greeter", files={**MODULE, **ENTRY})
    environment = await ensure_environment(lock_of(locked(wheel)), root=tmp_path / "root", fetch=Shelf(wheel))
    modes = {path.stat().st_mode & 0o777 for path in environment.rglob("*") if not path.is_symlink()}
    assert modes == {0o644, 0o755}


async def test_the_same_lock_is_the_same_environment_and_needs_no_wheels_again(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "greeter", files=MODULE)
    shelf = Shelf(wheel)
    lock = lock_of(locked(wheel))
    first, second = [await ensure_environment(lock, root=tmp_path / "root", fetch=shelf) for _ in range(2)]
    assert first == second
    assert shelf.fetched == [wheel.name]


async def test_a_wheel_is_unpacked_once_for_all_environments(tmp_path: Path) -> None:
    shared, own = make_wheel(tmp_path, "shared", files={"shared.py": "x = 1\n"}), make_wheel(tmp_path, "own")
    shelf = Shelf(shared, own)
    first = await ensure_environment(lock_of(locked(shared)), root=tmp_path / "root", fetch=shelf)
    second = await ensure_environment(lock_of(locked(shared), locked(own)), root=tmp_path / "root", fetch=shelf)
    assert shelf.fetched == [shared.name, own.name]
    inodes = [next(path.glob("lib/*/site-packages/shared.py")).stat().st_ino for path in (first, second)]
    assert inodes[0] == inodes[1]


async def test_two_makers_make_one_environment(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "greeter", files=MODULE)
    shelf, lock = Shelf(wheel), lock_of(locked(wheel))
    made = await asyncio.gather(*(ensure_environment(lock, root=tmp_path / "root", fetch=shelf) for _ in range(3)))
    assert len(set(made)) == 1
    assert os.listdir(tmp_path / "root" / "venvs") == [environment_key(lock)]


async def test_bytes_that_are_not_the_locks_are_refused(tmp_path: Path) -> None:
    wheel, other = make_wheel(tmp_path / "a", "greeter", files=MODULE), make_wheel(tmp_path / "b", "greeter")

    async def swapped(_: object) -> Path:
        return other

    with pytest.raises(BadWheel, match="not the file that the lock names"):
        await ensure_environment(lock_of(locked(wheel)), root=tmp_path / "root", fetch=swapped)
    assert os.listdir(tmp_path / "root" / "venvs") == []


async def test_a_lock_of_another_python_or_platform_is_refused(tmp_path: Path) -> None:
    lock = lock_of()
    for other in (lock.model_copy(update={"python": "3.2"}), lock.model_copy(update={"platform": "plan9_mips"})):
        with pytest.raises(NoPython):
            await ensure_environment(other, root=tmp_path / "root", fetch=Shelf())


async def test_a_tool_runs_by_uvx_from_its_own_environment(tmp_path: Path) -> None:
    old, new = (
        make_wheel(tmp_path, "dep", "1.0", {"dep.py": "v = 1\n"}),
        make_wheel(tmp_path, "dep", "2.0", {"dep.py": "v = 2\n"}),
    )
    files = {"tool_server.py": "def main():\n    import dep, sys\n    print(dep.v, sys.argv[1:])\n"}
    entry = {"tool_server-1.0.dist-info/entry_points.txt": "[console_scripts]\ntool-server = tool_server:main\n"}
    tool = make_wheel(tmp_path, "tool-server", files={**files, **entry})
    wheels = (locked(old), locked(new, tool="tool-server>=1"), locked(tool, tool="tool-server>=1"))
    environment = await ensure_environment(lock_of(*wheels), root=tmp_path / "root", fetch=Shelf(old, new, tool))
    uvx, uv = str(environment / "bin/uvx"), str(environment / "bin/uv")
    assert started(environment, uvx, "tool-server", "--port", "1") == "2 ['--port', '1']\n"
    assert started(environment, uvx, "--from", "Tool_Server==1.0", "tool-server") == "2 []\n"
    assert started(environment, uv, "tool", "run", "tool-server@latest") == "2 []\n"
    with pytest.raises(subprocess.CalledProcessError) as caught:
        started(environment, uvx, "other")
    assert "was not resolved when this version was built" in caught.value.stderr


async def test_a_removed_environment_leaves_the_trees_whole(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "greeter", files=MODULE)
    lock, shelf = lock_of(locked(wheel)), Shelf(wheel)
    first = await ensure_environment(lock, root=tmp_path / "root", fetch=shelf)
    remove_tree(first)
    assert not first.exists()
    assert await ensure_environment(lock, root=tmp_path / "root", fetch=shelf) == first
    assert shelf.fetched == [wheel.name]


RUN = "def main():\n    import mine, space.dep, space.own\n    print(mine.v, space.dep.__file__, space.own.__file__)\n"


async def test_the_owners_wheels_lie_over_an_environment_of_the_others(tmp_path: Path) -> None:
    entry = {"dep-1.0.dist-info/entry_points.txt": "[console_scripts]\nrun-mine = runs:main\n"}
    dep = make_wheel(tmp_path, "dep", files={"space/dep.py": "", "runs.py": RUN, "hidden.py": "v = 'dep'\n", **entry})
    made = {}
    for version in ("1.0", "2.0"):
        files = {"mine.py": f"v = {version}\n", "space/own.py": "", "hidden.py": "v = 'mine'\n"}
        mine = make_wheel(tmp_path, "mine", version, files)
        wheels = (locked(mine, owned=True), locked(dep))
        made[version] = await ensure_environment(lock_of(*wheels), root=tmp_path / "root", fetch=Shelf(mine, dep))
    bases = {base_of(environment) for environment in made.values()}
    assert len(bases) == 1
    assert bases == {await ensure_environment(lock_of(locked(dep)), root=tmp_path / "root", fetch=Shelf())}
    for version, environment in made.items():
        site = next(environment.glob("lib/python*/site-packages"))
        said = started(environment, str(environment / "bin/run-mine")).split()
        assert said == [version, f"{site}/space/dep.py", f"{site}/space/own.py"]
        assert "mine" in started(environment, f"{environment}/bin/python", "-c", "import hidden; print(hidden.v)")
        assert (site / "dep-1.0.dist-info").is_symlink()
    (base,) = bases
    assert base is not None
    assert not list(base.rglob("mine*"))
    assert base_of(base) is None


async def test_a_tool_lies_in_the_base(tmp_path: Path) -> None:
    files = {"tool_server.py": "def main():\n    print('served')\n"}
    entry = {"tool_server-1.0.dist-info/entry_points.txt": "[console_scripts]\ntool-server = tool_server:main\n"}
    tool, mine = make_wheel(tmp_path, "tool-server", files={**files, **entry}), make_wheel(tmp_path, "mine")
    wheels = (locked(mine, owned=True), locked(tool, tool="tool-server"))
    environment = await ensure_environment(lock_of(*wheels), root=tmp_path / "root", fetch=Shelf(mine, tool))
    assert started(environment, str(environment / "bin/uvx"), "tool-server") == "served\n"
