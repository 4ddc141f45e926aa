from __future__ import annotations

import subprocess
from codecs import BOM_UTF8
from contextlib import nullcontext
from pathlib import Path

import pytest
from envhub.errors import PackageError
from envhub.packaging.archives.reading import safe_members
from envhub.packaging.build import build_package, is_plain_hatchling
from envhub.packaging.git_state import read_git_state
from envhub.packaging.left_behind import LFS_POINTER
from envhub.packaging.project import bump_version, next_version, read_project

from tests.factories.packages import sha256, write_package


def test_a_package_is_built_twice_to_the_same_bytes(tmp_path: Path) -> None:
    project = read_project(write_package(tmp_path))
    first, second = (build_package(project, tmp_path / name) for name in ("one", "two"))
    assert (sha256(first.wheel), sha256(first.sdist)) == (sha256(second.wheel), sha256(second.sdist))
    assert "tiny_env.py" in {member.path for member in safe_members(first.wheel)}
    assert (first.metadata.name, first.metadata.version, first.warnings) == ("tiny-env", "0.1.0", ())


def test_another_backend_is_built_in_isolation(tmp_path: Path) -> None:
    directory = write_package(tmp_path)
    (directory / "backend.py").write_text(_BACKEND)
    text = (directory / "pyproject.toml").read_text()
    old = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    new = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (directory / "pyproject.toml").write_text(text.replace(old, new))
    with pytest.raises(PackageError, match="this backend says no"):
        build_package(read_project(directory), tmp_path / "out")


_BACKEND = """
import os
def build_wheel(directory, config_settings=None, metadata_directory=None):
    assert os.environ["SOURCE_DATE_EPOCH"]
    raise SystemExit("this backend says no")
build_sdist = build_wheel
"""


def test_hooks_and_plugins_leave_the_fast_path() -> None:
    system = {"requires": ["hatchling>=1"], "build-backend": "hatchling.build"}
    assert is_plain_hatchling({"build-system": system})
    assert not is_plain_hatchling({"build-system": {**system, "requires": ["hatchling", "hatch-vcs"]}})
    assert not is_plain_hatchling({"build-system": {**system, "requires": ["hatchling<1"]}})
    assert not is_plain_hatchling({"build-system": system, "tool": {"hatch": {"build": {"hooks": {"custom": {}}}}}})


@pytest.mark.parametrize("name", [".env", "id_rsa", "sub/credentials.json"])
def test_files_that_look_like_secrets_are_refused(tmp_path: Path, name: str) -> None:
    directory = write_package(tmp_path, files={name: "x"})
    text = (directory / "pyproject.toml").read_text()
    (directory / "pyproject.toml").write_text(text.replace("include = [", f'include = ["{name}", '))
    with pytest.raises(PackageError, match="look like secrets"):
        build_package(read_project(directory), tmp_path / "out")


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    directory = write_package(tmp_path)
    (directory / "data").symlink_to("/etc")
    with pytest.raises(PackageError, match="data is a symbolic link"):
        build_package(read_project(directory), tmp_path / "out")


def test_links_to_what_the_package_has_itself_are_no_obstacle(tmp_path: Path) -> None:
    """Coding agents' folders link to each other's."""
    directory = write_package(tmp_path, files={".prime/skills/review/SKILL.md": "# Review"})
    (directory / "NOTES.md").symlink_to("README.md")
    (directory / ".codex" / "skills").mkdir(parents=True)
    (directory / ".codex" / "skills" / "review").symlink_to("../../.prime/skills/review")
    assert build_package(read_project(directory), tmp_path / "out").wheel.exists()


@pytest.mark.parametrize("target", [".env", ".git/config", ".git", "..", ".", "gone", "link"])
def test_a_link_to_what_is_not_published_is_refused(tmp_path: Path, target: str) -> None:
    directory = write_package(tmp_path)
    (directory / ".git").mkdir()
    for name in (".env", ".git/config"):
        (directory / name).write_text("KEY=1")
    (directory / "link").symlink_to(target)
    with pytest.raises(PackageError, match="symbolic link"):
        build_package(read_project(directory), tmp_path / "out")


@pytest.mark.parametrize(("address", "usable"), [("git+https://example.org/x@main", True), ("file:///etc/x", False)])
def test_a_direct_reference_is_built_unless_no_hub_could_use_it(tmp_path: Path, address: str, usable: bool) -> None:
    extra = "[tool.hatch.metadata]\nallow-direct-references = true\n"
    directory = write_package(tmp_path, dependencies=[f"x @ {address}"], pyproject_extra=extra)
    with nullcontext() if usable else pytest.raises(PackageError, match="direct reference"):
        build_package(read_project(directory), tmp_path / "out")


def test_a_missing_readme_is_a_warning(tmp_path: Path) -> None:
    built = build_package(read_project(write_package(tmp_path, readme=None)), tmp_path / "out")
    assert "no README" in built.warnings[0]


@pytest.mark.parametrize("packed", ['"README.md", ', ""])
def test_a_readme_that_pyproject_does_not_name_is_packed_once(tmp_path: Path, packed: str) -> None:
    directory = write_package(tmp_path)
    pyproject = directory / "pyproject.toml"
    text = pyproject.read_text().replace('readme = "README.md"\n', "").replace('"README.md", ', packed)
    pyproject.write_text(text)
    first, second = (build_package(read_project(directory), tmp_path / name) for name in ("one", "two"))
    paths = [member.path for member in safe_members(first.sdist)]
    assert (first.warnings, paths.count("tiny_env-0.1.0/README.md")) == ((), 1)
    assert sha256(first.sdist) == sha256(second.sdist)


def test_a_byte_order_mark_is_named(tmp_path: Path) -> None:
    path = write_package(tmp_path) / "pyproject.toml"
    path.write_bytes(BOM_UTF8 + path.read_bytes())
    with pytest.raises(PackageError, match="byte order mark") as caught:
        read_project(path.parent)
    assert "without BOM" in caught.value.hint


def test_a_version_that_is_none_is_named_before_a_backend_stumbles_over_it(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="'one' is not a version") as caught:
        read_project(write_package(tmp_path, version="one"))
    assert "0.1.0" in caught.value.hint


def test_a_directory_without_pyproject_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(PackageError) as caught:
        read_project(tmp_path)
    assert "hub init" in caught.value.hint


@pytest.mark.parametrize(
    ("version", "part", "expected"),
    [
        ("1.2.3", "patch", "1.2.4"),
        ("1.2.3", "minor", "1.3.0"),
        ("1.2.3", "major", "2.0.0"),
        ("1.2.3rc1", "patch", "1.2.3"),
    ],
)
def test_versions_are_bumped(version: str, part: str, expected: str) -> None:
    assert next_version(version, part) == expected


def test_a_bump_keeps_the_line_ends_of_pyproject(tmp_path: Path) -> None:
    path = write_package(tmp_path) / "pyproject.toml"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    before = path.read_bytes()
    bump_version(read_project(path.parent), "minor")
    assert path.read_bytes() == before.replace(b'"0.1.0"', b'"0.2.0"')


def test_a_bump_keeps_the_rest_of_pyproject(tmp_path: Path) -> None:
    directory = write_package(tmp_path)
    before = (directory / "pyproject.toml").read_text()
    assert bump_version(read_project(directory), "minor").version == "0.2.0"
    assert (directory / "pyproject.toml").read_text() == before.replace('"0.1.0"', '"0.2.0"')


def test_git_state_tells_commit_and_dirty(tmp_path: Path) -> None:
    directory = write_package(tmp_path)
    assert read_git_state(directory) is None
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], [*identity, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", *command], cwd=directory, check=True)
    clean = read_git_state(directory)
    assert clean is not None
    assert (clean.dirty, clean.branch, len(clean.commit)) == (False, "main", 40)
    (directory / "new.py").touch()
    dirty = read_git_state(directory)
    assert dirty is not None
    assert dirty.dirty


def test_files_that_the_code_asks_for_and_the_wheel_lacks_are_a_warning(tmp_path: Path) -> None:
    directory = write_package(tmp_path)
    module = directory / "tiny_env.py"
    module.write_text(
        module.read_text() + '\nimport rules_of_play\nfrom shared.dice import roll\nROWS = __file__ + "/../rows.csv"\n'
    )
    for name in ("shared", "other"):
        (directory / name).mkdir()
    for name in ("rules_of_play.py", "rows.csv", "notes.txt", "shared/__init__.py", "other/__init__.py"):
        (directory / name).write_text("")
    (warning,) = build_package(read_project(directory), tmp_path / "out").warnings
    assert warning.startswith("not in the wheel, though its code asks for it: rows.csv, rules_of_play.py, shared/ (")


def test_a_git_lfs_pointer_is_a_warning(tmp_path: Path) -> None:
    directory = write_package(tmp_path)
    pyproject = directory / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace('"tiny_env.py"', '"tiny_env.py", "rows.csv"'))
    (directory / "rows.csv").write_bytes(LFS_POINTER + b"oid sha256:00\nsize 7\n")
    (warning,) = build_package(read_project(directory), tmp_path / "out").warnings
    assert warning == "only a Git LFS pointer: rows.csv (run `git lfs pull`, then push)"
