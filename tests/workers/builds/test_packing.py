"""Uploaded folders become packages: their own build backend runs in a box, and the hub's answer ends the run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from envhub.packaging.archives.reading import safe_members
from envhub.protocol.base import ErrorBody, ErrorDetail
from envhub.protocol.registry.builds import SourcePayload
from envhub.protocol.runs import Claim, FinishRequest, RunKind, RunState

from tests.workers.builds.fake_hub import TOKEN, FakeHub
from tests.workers.builds.sdists import make_sdist
from tests.workers.package_index import PackageIndex
from workers.builds.run import run_build
from workers.runs.execution import execute
from workers.runs.hub import HubClient
from workers.settings import WorkerEnvironment

pytestmark = pytest.mark.sandbox
Pack = Callable[[Path], Awaitable[FinishRequest]]


@pytest.fixture
async def hub() -> AsyncIterator[FakeHub]:
    made = FakeHub()
    async with made.serve():
        yield made


@pytest.fixture
def pack(hub: FakeHub, index: PackageIndex, data: Path) -> Pack:
    async def run(archive: Path) -> FinishRequest:
        folder = archive.name.removesuffix(".tar.gz")
        payload = SourcePayload(source=hub.keep(archive), filename=archive.name, folder=folder, name="mine")
        claim = Claim(
            run_id="r",
            kind=RunKind.BUILD,
            attempt=1,
            token=TOKEN,
            lease_seconds=30,
            owner="alice",
            payload=payload.model_dump(mode="json"),
        )
        settings = WorkerEnvironment(hub_url=hub.url, data=data, package_index_url=index.url)  # type: ignore[arg-type]
        async with HubClient(hub.url, "token", patience_s=2.0) as client:
            finish = await execute(client, claim, run_build, settings, asyncio.Event())
        assert finish is not None
        return finish

    return run


INSIDE = """
import socket
assert {".git", "dist"}.isdisjoint(os.listdir(".")), os.listdir(".")
try:
    socket.create_connection(("1.1.1.1", 53), 1)
except OSError:
    pass
else:
    raise AssertionError("it has a network")
"""


async def test_a_folder_becomes_a_wheel_and_an_sdist_with_its_readme(pack: Pack, hub: FakeHub, tmp_path: Path) -> None:
    files = {"README.md": "# mine", ".git/config": "secret", "dist/old.whl": "junk"}
    finish = await pack(make_sdist(tmp_path, "mine", before=INSIDE, files=files))
    assert finish.state is RunState.SUCCEEDED, (finish.failure, hub.log)
    (made,) = hub.packed
    names = (made.version, made.wheel.filename, made.sdist.filename)
    assert names == ("1.0", "mine-1.0-py3-none-any.whl", "mine-1.0.tar.gz")
    sdist = tmp_path / "got.tar.gz"
    sdist.write_bytes(hub.blobs[made.sdist.sha256])
    assert {member.path[9:] for member in safe_members(sdist)} == {"PKG-INFO", "module.py", "README.md"}
    assert hub.source_built == {}, "nobody else may get it"


async def test_a_backend_that_fails_says_why(pack: Pack, hub: FakeHub, tmp_path: Path) -> None:
    finish = await pack(make_sdist(tmp_path, "mine", before="raise RuntimeError('out of cheese')"))
    assert finish.failure is not None
    assert (finish.failure.code, "out of cheese" in finish.failure.message) == ("source_does_not_build", True)
    assert "upload it again" in finish.failure.hint
    assert "RuntimeError" in hub.log


async def test_a_root_of_several_packages_is_refused_with_their_names(pack: Pack, hub: FakeHub, tmp_path: Path) -> None:
    inner = {f"environments/{name}/pyproject.toml": "[project]\nname = 'x'\n" for name in ("one", "two")}
    finish = await pack(make_sdist(tmp_path, "mine", files=inner))
    assert finish.failure is not None
    assert (finish.failure.code, hub.packed) == ("no_environment", [])
    assert "Packages below it: environments/one, environments/two." in finish.failure.hint


async def test_what_the_hub_refuses_fails_with_its_words(pack: Pack, hub: FakeHub, tmp_path: Path) -> None:
    hub.refusal = ErrorBody(error=ErrorDetail(code="version_exists", message="it exists", hint="raise it"))
    finish = await pack(make_sdist(tmp_path, "mine"))
    assert finish.failure is not None
    assert (finish.failure.code, finish.failure.message, finish.failure.hint) == (
        "version_exists",
        "it exists",
        "raise it",
    )
