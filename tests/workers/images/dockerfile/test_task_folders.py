"""Task folders of an installed package: found by what was installed, named where they name no image."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from workers.images.dockerfile.task_folders import TaskFolder, by_name, task_folders

SITE = "lib/python3.11/site-packages"


def installed(venv: Path, **tomls: str) -> list[TaskFolder]:
    """An environment with a package of these tasks."""
    site = venv / SITE
    (site / "pack-1.0.dist-info").mkdir(parents=True)
    lines = ["pack.py,sha256=x,1", "../../../../etc/environment/Dockerfile,,"]
    for name, text in tomls.items():
        folder = site / "tasks" / name / "environment"
        folder.mkdir(parents=True)
        (folder / "Dockerfile").write_text("FROM base")
        (folder.parent / "task.toml").write_text(text)
        lines.append(f"tasks/{name}/environment/Dockerfile,sha256=x,9")
    (site / "pack-1.0.dist-info/RECORD").write_text("\n".join(lines))
    return task_folders([venv])


def test_found_with_the_image_that_each_names(tmp_path: Path) -> None:
    named, plain = installed(tmp_path, a='[environment]\ndocker_image = "x/y:1"\n', b="[environment]\ncpus = 1\n")
    assert (named.name, named.amended()) == ("x/y:1", "")
    assert plain.name.startswith("hub/dockerfile:b-")
    assert (named.project, plain.project) == ("pack", "pack")
    assert plain.context == tmp_path / SITE / "tasks/b/environment"


@pytest.mark.parametrize(
    "text", ["", 'version = "1.0"\n', "[environment] # of it\ncpus = 1\n[environment.env]\nA = '1'\n", "[agent]\nx = 1"]
)
def test_the_amended_file_says_nothing_else(tmp_path: Path, text: str) -> None:
    (folder,) = installed(tmp_path, a=text)
    before, after = tomllib.loads(text), tomllib.loads(folder.amended())
    assert after.pop("environment") == before.pop("environment", {}) | {"docker_image": folder.own_name}
    assert after == before


@pytest.mark.parametrize("text", ["environment = 1", "[environment", "environment.cpus = 1\n"])
def test_what_cannot_be_amended_stays(tmp_path: Path, text: str) -> None:
    (folder,) = installed(tmp_path, a=text)
    assert folder.amended() == ""


def test_a_name_that_folders_share_is_built_by_none(tmp_path: Path) -> None:
    same = '[environment]\ndocker_image = "python:3.11-slim"\n'
    folders = installed(tmp_path, a=same, b=same, c='[environment]\ndocker_image = "docker.io/library/one"\n')
    assert list(by_name(folders)) == ["one:latest"]
