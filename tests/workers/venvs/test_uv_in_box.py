"""`uv` of an environment: scripts that declare their dependencies run with these, without an index."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from envhub.protocol.registry.builds import LockedScript

from tests.workers.wheels import Shelf, lock_of, locked, make_wheel
from workers.venvs.environment import ensure_environment, environment_key
from workers.venvs.uv_in_box import digest_of, script_metadata

SCRIPT = '# /// script\n# dependencies = ["dep"]\n# ///\nimport dep, sys\nprint(dep.v, sys.argv[1:])\n'
BARE = "# /// script\n# dependencies = []\n# ///\nimport dep\n"


def locked_script(text: str, tool: str, problem: str = "") -> LockedScript:
    metadata = script_metadata(text)
    assert metadata is not None
    return LockedScript(metadata=digest_of(metadata), tool=tool, path="a.py", problem=problem)


@pytest.fixture
async def environment(tmp_path: Path) -> Path:
    """Its own `dep` is 1; the script's is 2; another script declares nothing, a third one something unknown."""
    old = make_wheel(tmp_path, "dep", "1.0", {"dep.py": "v = 1\n"})
    new = make_wheel(tmp_path, "dep", "2.0", {"dep.py": "v = 2\n"})
    mine = make_wheel(tmp_path, "mine")
    unknown = SCRIPT.replace('"dep"', '"unknown"')
    scripts = (
        locked_script(SCRIPT, "script: dep"),
        locked_script(BARE, "script: none"),
        locked_script(unknown, "script: unknown", "nobody has it"),
    )
    for name, text in {"script": SCRIPT, "bare": BARE, "unknown": unknown, "plain": "import dep; print(dep.v)"}.items():
        (tmp_path / f"{name}.py").write_text(text)
    lock = lock_of(locked(mine, owned=True), locked(old), locked(new, tool="script: dep"))
    lock = lock.model_copy(update={"scripts": scripts})
    return await ensure_environment(lock, root=tmp_path / "root", fetch=Shelf(old, new, mine))


def uv(environment: Path, *arguments: str) -> str:
    """Runs `uv` of an environment that this test made itself of harmless wheels."""
    command = [str(environment / "bin/uv"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=environment.parents[2])
    return done.stdout if done.returncode == 0 else done.stderr


@pytest.mark.parametrize("arguments", [["--script", "script.py"], ["-q", "script.py"], ["-s", "script.py"]])
def test_a_script_runs_with_what_it_declares(environment: Path, arguments: list[str]) -> None:
    assert uv(environment, "run", *arguments, "--more", "x") == "2 ['--more', 'x']\n"


def test_a_script_that_declares_nothing_has_nothing(environment: Path) -> None:
    assert "No module named 'dep'" in uv(environment, "run", "--script", "bare.py")


def test_a_file_without_metadata_and_a_command_have_the_environments_packages(environment: Path) -> None:
    assert uv(environment, "run", "plain.py") == "1\n"
    assert uv(environment, "run", "-m", "plain") == "1\n"
    assert uv(environment, "run", "echo", "-n", "hi") == "hi"


def test_the_interpreter_of_a_script_is_found_as_verifiers_does(environment: Path) -> None:
    path = str(environment.parents[2] / "script.py")
    assert "--script" in uv(environment, "sync", "--help")
    assert "--script" in uv(environment, "python", "find", "--help")
    assert uv(environment, "sync", "--script", path, "-q", "--no-config") == ""
    python = uv(environment, "python", "find", "--script", path, "--no-config").strip()
    assert subprocess.run([python, path], capture_output=True, text=True, check=True).stdout == "2 []\n"


def test_a_script_without_an_environment_says_why(environment: Path) -> None:
    assert "were not resolved: nobody has it" in uv(environment, "sync", "--script", "unknown.py")
    (environment.parents[2] / "late.py").write_text(SCRIPT.replace('"dep"', '"dep", "late"'))
    assert "in none of the package's files" in uv(environment, "run", "late.py")
    assert "No such file" in uv(environment, "run", "missing.py")


@pytest.mark.parametrize("arguments", [["pip", "install", "x"], ["sync"], ["run", "--with", "x", "script.py"], ["run"]])
def test_what_needs_an_index_is_refused(environment: Path, arguments: list[str]) -> None:
    assert uv(environment, *arguments).startswith("uv: ")


def test_scripts_are_part_of_an_environments_name() -> None:
    lock = lock_of()
    other = lock.model_copy(update={"scripts": (locked_script(SCRIPT, "script: dep"),)})
    assert environment_key(lock) != environment_key(other)
