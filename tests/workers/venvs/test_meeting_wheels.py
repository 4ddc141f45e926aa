"""Wheels whose trees meet: what fits is merged, what cannot fit is named as the package's."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from envhub.protocol.registry.builds import LockedWheel

from tests.workers.wheels import Shelf, lock_of, locked, make_wheel
from workers.venvs.environment import ensure_environment
from workers.venvs.errors import ToolFailed, WheelConflict
from workers.venvs.wheel_trees import of_wheel

Files = Mapping[str, str]
FILE, FOLDER = {"thing": "a file"}, {"thing/__init__.py": "v = 1\n"}


async def made(folder: Path, *wheels: Files, own: Files | None = None) -> Path:
    """An environment of wheels a, b, ... and, over it, of the owner's wheel."""
    paths = [make_wheel(folder, "abcdef"[number], files=files) for number, files in enumerate(wheels)]
    lines: list[LockedWheel] = [locked(path) for path in paths]
    if own is not None:
        paths.append(make_wheel(folder, "mine", files=own))
        lines.insert(0, locked(paths[-1], owned=True))
    return await ensure_environment(lock_of(*lines), root=folder / "root", fetch=Shelf(*paths))


def said(environment: Path, code: str) -> str:
    python = str(environment / "bin/python")
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


async def test_a_script_that_is_python_leaves_no_folder_of_byte_code_in_bin(tmp_path: Path) -> None:
    environment = await made(tmp_path, {"{data}/scripts/tool.py": "#!python\nprint(1)\n"}, own={"mine.py": ""})
    assert (environment / "bin/tool.py").is_file()
    assert [path for path in (environment / "bin").iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("pair", [(FILE, FOLDER), (FOLDER, FILE)], ids=["file first", "folder first"])
async def test_a_file_and_a_folder_of_one_name_are_a_conflict_of_two_wheels(
    tmp_path: Path, pair: tuple[Files, Files]
) -> None:
    with pytest.raises(WheelConflict, match=r"thing.*a-1\.0-py3-none-any\.whl and b-1\.0-py3-none-any\.whl"):
        await made(tmp_path, *pair)


@pytest.mark.parametrize("pair", [(FILE, FOLDER), (FOLDER, FILE)], ids=["file below", "folder below"])
async def test_the_owners_wheel_does_not_silently_hide_what_does_not_fit(
    tmp_path: Path, pair: tuple[Files, Files]
) -> None:
    with pytest.raises(WheelConflict, match=r"thing.*mine-1\.0-py3-none-any\.whl and a-1\.0-py3-none-any\.whl"):
        await made(tmp_path, pair[0], own=pair[1])


async def test_two_schemes_of_one_wheel_that_do_not_fit_are_a_conflict(tmp_path: Path) -> None:
    with pytest.raises(WheelConflict, match=r"thing .*\(a-1\.0-py3-none-any\.whl\)"):
        await made(tmp_path, {"thing/inner.py": "", "{data}/purelib/thing": "a file"})


async def test_one_path_in_two_schemes_of_a_wheel_is_the_later_schemes(tmp_path: Path) -> None:
    environment = await made(tmp_path, {"thing.py": "v = 'root'\n", "{data}/purelib/thing.py": "v = 'data'\n"})
    assert said(environment, "import thing; print(thing.v)") == "data"


async def test_namespaces_data_and_headers_of_many_wheels_are_merged(tmp_path: Path) -> None:
    shared = {"space/__init__.py": "", "{data}/data/share/x/same.txt": "x", "{data}/headers/api.h": "x"}
    wheels = [{**shared, f"space/{one}.py": "", f"{{data}}/data/share/x/{one}.txt": "x"} for one in "ab"]
    own = {"space/mine.py": "", "{data}/data/share/x/mine.txt": "x", "{data}/platlib/space/flat.py": ""}
    environment = await made(tmp_path, *wheels, own=own)
    assert said(environment, "import space.a, space.b, space.mine, space.flat; print('all')") == "all"
    names = {path.name for path in (environment / "share/x").iterdir()}
    assert names == {"same.txt", "a.txt", "b.txt", "mine.txt"}


async def test_a_module_beside_a_package_of_its_name_is_no_conflict(tmp_path: Path) -> None:
    environment = await made(
        tmp_path, {"x.py": "v = 'module'\n"}, {"x/__init__.py": "v = 'package'\n"}, own={"x/y.py": ""}
    )
    assert said(environment, "import x; print(x.v)") == "package"


async def test_names_that_differ_by_case_lie_side_by_side(tmp_path: Path) -> None:
    environment = await made(tmp_path, {"Thing.py": "v = 1\n", "thing.py": "v = 2\n"}, {"THING/__init__.py": "v = 3\n"})
    assert said(environment, "import Thing, thing, THING; print(Thing.v, thing.v, THING.v)") == "1 2 3"


async def test_what_an_installer_would_have_left_behind_does_no_harm(tmp_path: Path) -> None:
    left = {
        "a-1.0.dist-info/INSTALLER": "pip\n",
        "a-1.0.dist-info/REQUESTED": "",
        "a-1.0.dist-info/direct_url.json": "{}",
    }
    environment = await made(tmp_path, {"a.py": "", **left}, own={"mine.py": ""})
    assert said(environment, "import importlib.metadata as m; print(m.version('a'))") == "1.0"


def test_what_nobody_foresaw_names_its_wheel() -> None:
    with pytest.raises(ToolFailed, match=r"a-1\.0\.whl cannot be laid out: .*Is a directory"), of_wheel("a-1.0.whl"):
        raise IsADirectoryError(21, "Is a directory", "/x")
