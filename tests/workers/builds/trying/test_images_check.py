"""What an image that is not built needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from envhub.protocol.registry.needs import NeedKind
from envhub.protocol.runner import Described, SplitInfo

from workers.builds.trying.images_check import needs_of, without_built
from workers.images.dockerfile.task_folders import TaskFolder
from workers.images.interface import ImageLacking

FAILED = "the Dockerfile of x cannot be built: line 2: RUN y: it ended with status 100"


@pytest.mark.parametrize(
    ("name", "asked", "kind", "need"),
    [
        ("ubuntu:24.04", "", NeedKind.SANDBOX, "ubuntu:24.04"),
        ("", "https://files.example.org/words.txt", NeedKind.FILE, "https://files.example.org/words.txt"),
        ("", "http://packages.example.org/d/dists/stable/InRelease", NeedKind.HOST, "packages.example.org:80"),
        ("", "https://git.example.org/a/b.git/info/refs?service=x", NeedKind.HOST, "git.example.org:443"),
    ],
)
def test_the_base_a_file_or_a_host(name: str, asked: str, kind: NeedKind, need: str) -> None:
    found = needs_of(ImageLacking(name, FAILED), [("GET", asked)] if asked else [])
    assert [(one.kind, one.name) for one in found] == [(kind, need)]


def test_a_step_that_asked_for_nothing_needs_nothing() -> None:
    assert needs_of(ImageLacking("", FAILED), []) == ()


def test_rows_do_not_need_images_that_are_built_for_them() -> None:
    folders = [TaskFolder(Path("venv"), "a/one/task.toml", "swe/one"), TaskFolder(Path("venv"), "a/two/task.toml")]
    images = {"swe/one": 0, folders[1].own_name: 1, "swe/other": 2, "Not a name": 3}
    described = Described(env_class="E", splits={"eval": SplitInfo(size=4, images=images)})
    assert without_built(described, folders).splits["eval"].images == {"swe/other": 2}
