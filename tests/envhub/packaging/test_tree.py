"""What `hub push` refuses in a folder before it builds, and what it does not look at."""

from __future__ import annotations

from pathlib import Path

import pytest
from envhub.errors import PackageError
from envhub.packaging import tree
from envhub.packaging.build import build_package
from envhub.packaging.project import read_project
from envhub.packaging.tree import check_tree

from tests.factories.packages import write_package


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    directory = write_package(tmp_path)
    (directory / "data").symlink_to("/etc")
    with pytest.raises(PackageError, match="data is a symbolic link"):
        build_package(read_project(directory), tmp_path / "out")


def test_too_much_data_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write_package(tmp_path, files={"corpus/a.bin": "x" * 4000, "corpus/b.bin": "x" * 4000})
    monkeypatch.setattr(tree, "MAX_TREE_BYTES", 6000)
    with pytest.raises(PackageError, match=r"the largest: corpus \(") as caught:
        check_tree(read_project(directory))
    assert (caught.value.code, ".gitignore" in caught.value.hint, "hub data add" in caught.value.hint) == (
        "too_large",
        True,
        True,
    )


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


IGNORED = {".gitignore": "data\n/big/\n*.local\n"}


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A package whose sdist has the whole folder, but for what .gitignore names."""
    directory = write_package(tmp_path, files=IGNORED)
    pyproject = directory / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().partition("[tool.hatch.build]")[0])
    return directory


def test_what_is_ignored_is_no_obstacle(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (whole / "data").symlink_to("/etc")
    (whole / "key.local").symlink_to("/etc/passwd")
    (whole / "big").mkdir()
    (whole / "big" / "rows.bin").write_bytes(bytes(64 * 1024))
    monkeypatch.setattr(tree, "MAX_TREE_BYTES", 32 * 1024)
    check_tree(read_project(whole))


@pytest.mark.parametrize("table", ["ignore-vcs = true", 'artifacts = ["data"]', "targets.wheel.ignore-vcs = true"])
def test_what_is_ignored_is_looked_at_if_the_build_packs_it(whole: Path, table: str) -> None:
    (whole / "pyproject.toml").open("a").write(f"[tool.hatch.build]\n{table}\n")
    (whole / "data").symlink_to("/etc")
    with pytest.raises(PackageError, match="data is a symbolic link"):
        check_tree(read_project(whole))


def test_what_is_ignored_is_looked_at_if_the_backend_knows_no_ignore_files(whole: Path) -> None:
    pyproject = whole / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace("hatchling.build", "setuptools.build_meta"))
    (whole / "data").symlink_to("/etc")
    with pytest.raises(PackageError, match="data is a symbolic link"):
        check_tree(read_project(whole))


@pytest.mark.parametrize("name", [".tox/py312", ".nox/tests", "data/env", "deep/my.local"])
def test_virtual_environments_that_are_not_packed_are_no_obstacle(whole: Path, name: str) -> None:
    _make_venv(whole / name)
    check_tree(read_project(whole))


def test_a_virtual_environment_beside_included_files_is_no_obstacle(tmp_path: Path) -> None:
    directory = write_package(tmp_path)
    _make_venv(directory / "env")
    check_tree(read_project(directory))


def test_a_virtual_environment_that_would_be_packed_is_named(whole: Path) -> None:
    _make_venv(whole / "env")
    with pytest.raises(PackageError, match=r"^env is a virtual environment") as caught:
        check_tree(read_project(whole))
    assert ".gitignore" in caught.value.hint


def _make_venv(folder: Path) -> None:
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").touch()
    (folder / "bin" / "python").symlink_to("/usr/bin/env")
