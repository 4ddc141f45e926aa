from __future__ import annotations

import subprocess
from codecs import BOM_UTF8
from contextlib import nullcontext
from pathlib import Path
from textwrap import indent

import pytest
from envhub.errors import PackageError
from envhub.packaging.archives.reading import read_member, safe_members
from envhub.packaging.build import build_package, is_plain_hatchling
from envhub.packaging.git_state import read_git_state
from envhub.packaging.left_behind import LFS_POINTER
from envhub.packaging.project import bump_version, next_version, read_project, stated_visibility

from tests.factories.packages import metadata_text, sha256, write_package


def test_a_package_is_built_twice_to_the_same_bytes(tmp_path: Path) -> None:
    project = read_project(write_package(tmp_path))
    first, second = (build_package(project, tmp_path / name) for name in ("one", "two"))
    assert (sha256(first.wheel), sha256(first.sdist)) == (sha256(second.wheel), sha256(second.sdist))
    assert "tiny_env.py" in {member.path for member in safe_members(first.wheel)}
    assert (first.metadata.name, first.metadata.version, first.warnings) == ("tiny-env", "0.1.0", ())


def test_another_backend_is_built_in_isolation(tmp_path: Path) -> None:
    directory = _with_backend(
        tmp_path, 'assert os.environ["SOURCE_DATE_EPOCH"]\nraise SystemExit("this backend says no")'
    )
    with pytest.raises(PackageError, match=r"the package does not build:\n(.*\n)*this backend says no$"):
        build_package(read_project(directory), tmp_path / "out")


def test_what_was_deleted_is_not_in_the_wheel_and_a_build_leaves_nothing_behind(tmp_path: Path) -> None:
    directory = _with_backend(tmp_path)
    (directory / "build" / "lib").mkdir(parents=True)
    (directory / "build" / "lib" / "deleted.py").touch()
    before = sorted(directory.rglob("*"))
    built = build_package(read_project(directory), tmp_path / "out")
    assert [member.path for member in safe_members(built.wheel) if member.path.endswith(".py")] == ["tiny_env.py"]
    assert [path for path in sorted(directory.rglob("*")) if "__pycache__" not in path.parts] == before


def test_a_file_that_the_sdist_lacks_is_asked_for(tmp_path: Path) -> None:
    directory = _with_backend(tmp_path, in_wheel='open("requirements.txt")')
    (directory / "requirements.txt").touch()
    with pytest.raises(PackageError, match=r"requirements.txt") as caught:
        build_package(read_project(directory), tmp_path / "out")
    assert "MANIFEST.in" in caught.value.hint


def test_build_requirements_that_cannot_be_installed_are_told(tmp_path: Path) -> None:
    directory = _with_backend(tmp_path)
    pyproject = directory / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace("requires = []", 'requires = ["./no-such-folder"]'))
    with pytest.raises(PackageError, match="no-such-folder"):
        build_package(read_project(directory), tmp_path / "out")


def _with_backend(root: Path, before: str = "pass", in_wheel: str = "pass") -> Path:
    """A package whose own backend leaves folders behind as setuptools does, and runs code of the test."""
    directory = write_package(root)
    (directory / "backend.py").write_text(_BACKEND.format(before=indent(before, "    "), in_wheel=in_wheel))
    text = (directory / "pyproject.toml").read_text()
    old = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    new = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (directory / "pyproject.toml").write_text(text.replace(old, new))
    return directory


_BACKEND = """
import os, pathlib, shutil, tarfile, zipfile

STEM = "tiny_env-0.1.0"
METADATA = "Metadata-Version: 2.1\\nName: tiny-env\\nVersion: 0.1.0\\nRequires-Dist: verifiers\\n"

def build_sdist(folder, config_settings=None):
{before}
    os.makedirs("tiny_env.egg-info", exist_ok=True)
    pathlib.Path("tiny_env.egg-info/PKG-INFO").write_text(METADATA)
    with tarfile.open(os.path.join(folder, STEM + ".tar.gz"), "w:gz") as archive:
        for name in ("pyproject.toml", "backend.py", "tiny_env.py", "README.md"):
            archive.add(name, f"{{STEM}}/{{name}}")
        archive.add("tiny_env.egg-info/PKG-INFO", f"{{STEM}}/PKG-INFO")
    return STEM + ".tar.gz"

def build_wheel(folder, config_settings=None, metadata_directory=None):
    {in_wheel}
    os.makedirs("build/lib", exist_ok=True)
    shutil.copy("tiny_env.py", "build/lib")
    with zipfile.ZipFile(os.path.join(folder, STEM + "-py3-none-any.whl"), "w") as wheel:
        for path in pathlib.Path("build/lib").iterdir():
            wheel.write(path, path.name)
        wheel.writestr(STEM + ".dist-info/METADATA", METADATA)
        wheel.writestr(STEM + ".dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        listed = "".join(name + ",,\\n" for name in [*wheel.namelist(), STEM + ".dist-info/RECORD"])
        wheel.writestr(STEM + ".dist-info/RECORD", listed)
    return STEM + "-py3-none-any.whl"
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


@pytest.mark.parametrize(("address", "usable"), [("git+https://example.org/x@main", True), ("file:///etc/x", False)])
def test_a_direct_reference_is_built_unless_no_hub_could_use_it(tmp_path: Path, address: str, usable: bool) -> None:
    extra = "[tool.hatch.metadata]\nallow-direct-references = true\n"
    directory = write_package(tmp_path, dependencies=[f"x @ {address}"], pyproject_extra=extra)
    with nullcontext() if usable else pytest.raises(PackageError, match="direct reference"):
        build_package(read_project(directory), tmp_path / "out")


def test_a_missing_readme_is_a_warning(tmp_path: Path) -> None:
    built = build_package(read_project(write_package(tmp_path, readme=None)), tmp_path / "out")
    assert "no README" in built.warnings[0]


def test_the_metadata_of_an_earlier_build_in_the_folder_is_not_packed(tmp_path: Path) -> None:
    earlier = metadata_text("tiny-env", "0.0.9")
    directory = write_package(tmp_path, files={"PKG-INFO": earlier, "rows/PKG-INFO": "Name: a row\n"})
    pyproject = directory / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().partition("[tool.hatch.build]")[0])
    first, second = (build_package(read_project(directory), tmp_path / name) for name in ("one", "two"))
    root = "tiny_env-0.1.0"
    assert read_member(first.sdist, f"{root}/PKG-INFO", limit=1000).splitlines()[2] == b"Version: 0.1.0"
    assert read_member(first.sdist, f"{root}/rows/PKG-INFO", limit=1000) == b"Name: a row\n"
    assert sha256(first.sdist) == sha256(second.sdist)


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


def test_a_readme_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    directory = write_package(tmp_path)
    (directory / "README.md").write_bytes("# Hello".encode("utf-16"))  # as PowerShell writes it
    with pytest.raises(PackageError, match=r"README.md is not UTF-8"):
        build_package(read_project(directory), tmp_path / "out")


@pytest.mark.parametrize("odd", ["tool = 3", "tool.envhub = 3"])
def test_settings_that_are_no_table_count_as_absent(tmp_path: Path, odd: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f'{odd}\n[project]\nname = "tiny-env"\n')
    assert stated_visibility(read_project(tmp_path)) is None


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
        ("2!1.2", "patch", "2!1.2.1"),
        ("2!1.2", "minor", "2!1.3.0"),
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
