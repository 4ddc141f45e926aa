"""A sandbox per test, on every backend that the test names."""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from workers.sandbox import Sandbox, backend
from workers.sandbox.doctor.own_image import OnImage, make_image

from .running_engine import RunningEngine, need_podman


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips on a machine without bubblewrap, never in CI."""
    if shutil.which("bwrap") is None and os.environ.get("CI") != "true":
        for item in items:
            if item.get_closest_marker("sandbox"):
                item.add_marker(pytest.mark.skip(reason="bubblewrap is not installed"))


@pytest.fixture
def root() -> Iterator[Path]:
    """Short, because unix sockets lie below it."""
    with tempfile.TemporaryDirectory(prefix="sb-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture
def sandbox(root: Path) -> Sandbox:
    return backend("bwrap", root)


@pytest.fixture(scope="session")
def engine() -> Iterator[RunningEngine]:
    """The daemon of podman, for all tests of this process."""
    need_podman()
    with tempfile.TemporaryDirectory(prefix="eg-", dir="/tmp") as name:
        Path(name).chmod(0o711)
        running = RunningEngine(Path(name))
        running.start()
        yield running
        running.stop()


@pytest.fixture
def podman(engine: RunningEngine, root: Path) -> Sandbox:
    """All its boxes are on an image."""
    return OnImage(backend("podman", root, engine=engine.socket), make_image(root / "image"))


CONTAINERS = pytest.param("podman", marks=pytest.mark.matrix)


@pytest.fixture(params=["bwrap", "image", "process", CONTAINERS])
def any_sandbox(request: pytest.FixtureRequest, root: Path) -> Sandbox:
    """The contract suite runs on all."""
    if request.param == "podman":
        return cast(Sandbox, request.getfixturevalue("podman"))
    if request.param == "image":
        return OnImage(backend("bwrap", root), make_image(root / "image"))
    return backend(request.param, root, accept_no_isolation=True)


@pytest.fixture(params=["bwrap", CONTAINERS])
def on_image(request: pytest.FixtureRequest, root: Path) -> OnImage:
    """On every backend that has boxes on images."""
    if request.param == "podman":
        return cast(OnImage, request.getfixturevalue("podman"))
    return OnImage(backend("bwrap", root), make_image(root / "image"))


@pytest.fixture(params=["bwrap", "process"])
def host_sandbox(request: pytest.FixtureRequest, root: Path) -> Sandbox:
    """Boxes with the host's programs."""
    return backend(request.param, root, accept_no_isolation=True)


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
