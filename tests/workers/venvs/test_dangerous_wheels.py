from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.workers.wheels import Shelf, lock_of, locked, make_wheel
from workers.venvs.environment import ensure_environment
from workers.venvs.errors import BadWheel, DangerousWheel
from workers.venvs.wheel_checks import check_wheel

REFUSED = [
    "{data}/data/bin/python",
    "{data}/data/pyvenv.cfg",
    "{data}/data/lib/python3.11/site-packages/x.pth",
    "{data}/data/lib64/x.so",
    "{data}/data/base/bin/x",
    "{data}/data/envhub-lock.json",
    "{data}/scripts/python3",
    "{data}/scripts/Python",
    "{data}/scripts/activate",
    "{data}/scripts/deactivate.nu",
    "{data}/scripts/sub/program",
    "{data}/surprise/x",
    "{data}/platlib/pyvenv.cfg",
    "other-1.0.data/scripts/program",
    "pyvenv.cfg",
]


@pytest.mark.parametrize("member", REFUSED)
def test_a_wheel_that_would_write_over_the_environment_is_refused(tmp_path: Path, member: str) -> None:
    wheel = make_wheel(tmp_path, "evil", files={member: "x"})
    with pytest.raises(DangerousWheel, match=r"evil-1\.0"):
        check_wheel(wheel, wheel.name)


@pytest.mark.parametrize("name", ["python3", "activate", "../../bin/x", "python3.11-config", ".hidden"])
def test_a_console_script_with_a_reserved_name_is_refused(tmp_path: Path, name: str) -> None:
    entry = f"[console_scripts]\n{name} = evil:main\n"
    wheel = make_wheel(tmp_path, "evil", files={"evil-1.0.dist-info/entry_points.txt": entry})
    with pytest.raises(DangerousWheel, match="installs a program"):
        check_wheel(wheel, wheel.name)


def test_a_console_script_that_only_begins_like_a_reserved_name_is_let_in(tmp_path: Path) -> None:
    entry = "[console_scripts]\nactivate-global-python-argcomplete = good:main\npython-check = good:main\n"
    wheel = make_wheel(tmp_path, "good", files={"good-1.0.dist-info/entry_points.txt": entry})
    assert set(check_wheel(wheel, wheel.name).scripts) == {"activate-global-python-argcomplete", "python-check"}


def test_an_entry_point_cannot_smuggle_code_into_its_script(tmp_path: Path) -> None:
    entry = "[console_scripts]\nfine = os;os.system('x'):main\n"
    wheel = make_wheel(tmp_path, "evil", files={"evil-1.0.dist-info/entry_points.txt": entry})
    with pytest.raises(BadWheel, match="names no function"):
        check_wheel(wheel, wheel.name)


@pytest.mark.parametrize("member", ["../outside.py", "/absolute.py", "a/../../b.py"])
def test_a_member_outside_is_refused(tmp_path: Path, member: str) -> None:
    wheel = make_wheel(tmp_path, "evil", files={member: "x"})
    with pytest.raises(DangerousWheel):
        check_wheel(wheel, wheel.name)


def test_a_link_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "evil")
    with zipfile.ZipFile(wheel, "a") as archive:
        link = zipfile.ZipInfo("evil/link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(DangerousWheel, match="link"):
        check_wheel(wheel, wheel.name)


def test_a_wheel_that_says_another_name_is_refused(tmp_path: Path) -> None:
    metadata = "Metadata-Version: 2.1\nName: numpy\nVersion: 1.0\n"
    wheel = make_wheel(tmp_path, "evil", files={"evil-1.0.dist-info/METADATA": metadata})
    with pytest.raises(BadWheel, match="'numpy'"):
        check_wheel(wheel, wheel.name)


async def test_files_beside_the_packages_are_installed_and_so_is_pip(tmp_path: Path) -> None:
    files = {"{data}/data/LICENSE": "text", "{data}/data/lib/libx.so.2": "code", "{data}/data/bin/x": "#!python\n"}
    library = make_wheel(tmp_path, "library", files=files)
    entry = "[console_scripts]\npip = pip:main\npip3 = pip:main\n"
    files = {"pip-1.0.dist-info/entry_points.txt": entry, "{data}/data/LICENSE": "another"}
    pip = make_wheel(tmp_path, "pip", files=files)
    lock, shelf = lock_of(locked(library), locked(pip)), Shelf(library, pip)
    environment = await ensure_environment(lock, root=tmp_path / "root", fetch=shelf)
    assert (environment / "LICENSE").read_text() == "text"
    assert (environment / "lib/libx.so.2").read_text() == "code"
    assert {"x", "pip", "pip3"} <= set(os.listdir(environment / "bin"))


def test_manual_pages_and_plain_scripts_are_let_in(tmp_path: Path) -> None:
    files = {"{data}/data/share/man/man1/x.1": "x", "{data}/scripts/isympy": "#!python\n", "{data}/purelib/m.py": ""}
    wheel = make_wheel(tmp_path, "good", files=files)
    places = check_wheel(wheel, wheel.name).places
    assert {("data", "share/man/man1/x.1"), ("bin", "isympy"), ("site", "m.py")} <= set(places.values())


async def test_a_pth_file_runs_nothing_while_its_environment_is_made(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    witness.mkdir(mode=0o777)
    os.chmod(witness, 0o777)
    line = f"import os; open({str(witness / 'ran')!r} + str(os.getpid()), 'w')\n"
    files = {
        "evil.pth": line,
        "sitecustomize.py": line,
        "usercustomize.py": line,
        "compileall.py": line,
        "json.py": line,
    }
    wheel = make_wheel(tmp_path, "evil", files=files)
    environment = await ensure_environment(lock_of(locked(wheel)), root=tmp_path / "root", fetch=Shelf(wheel))
    assert list(environment.glob("lib/*/site-packages/evil.pth"))  # it is there, for the box to run
    assert os.listdir(witness) == []
    started(environment)
    assert os.listdir(witness) != []  # the witness works: starting the interpreter is what runs it


def started(environment: Path) -> None:
    subprocess.run([environment / "bin/python", "-c", ""], check=True)
