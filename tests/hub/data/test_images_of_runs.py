"""A run's images, from the hub and a real registry: what was added, what was pinned, what stands in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from envhub.protocol.base import BlobRef
from envhub.protocol.runs import Claim, RunKind
from envhub.protocol.sandboxes.images import Layout

from hub.data.images import Place, add_image
from hub.data.models import Image as ImageRow
from tests.factories.accounts import make_user
from tests.factories.runs import hold_run, make_run
from tests.factories.storage import make_blob
from tests.workers.images.archives import docker_archive, layer
from tests.workers.images.registry import LocalRegistry, local_registry, needs_registry
from workers.images.archives import unpack
from workers.images.config import ImageConfig
from workers.images.interface import Image, ImageLacking
from workers.images.sources import RunImages
from workers.images.store import Holding, Store
from workers.runs.hub import RunClient, connect
from workers.settings import WorkerEnvironment

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRegistry]:
    with local_registry(tmp_path_factory.mktemp("registry")) as running:
        running.push("library/python:3.11", [layer(("usr/bin/tool", "first"))])
        yield running


async def small_base(store: Store) -> Holding:
    """hub/base with Python 3.11, without apt."""

    async def make(root: Path) -> ImageConfig:
        (root / "usr/bin").mkdir(parents=True)
        (root / "usr/bin/python3.11").touch()
        return ImageConfig()

    return await store.ensure("sha256:" + "b" * 64, make)


class Hosts:
    """Workers of one hub, each on a host of its own, in a run of its own."""

    def __init__(self, url: str, folder: Path, stack: AsyncExitStack) -> None:
        self._url, self._folder, self._stack = url, folder, stack

    async def images(self, host: str = "one") -> RunImages:
        run = await sync_to_async(make_run)()
        token = await sync_to_async(hold_run)(run)
        connection = connect(self._url, 1.0)
        self._stack.push_async_callback(connection.http.aclose)
        claim = Claim(
            run_id=str(run.pk), kind=RunKind.EVAL, attempt=1, token=token, lease_seconds=30, owner="a", payload={}
        )
        settings = WorkerEnvironment(data=self._folder / host)
        return RunImages(RunClient(connection, self._url, claim), settings, base=small_base)

    async def use(self, images: RunImages, name: str) -> Image:
        """An image that some sandbox has from now on."""
        return await self._stack.enter_async_context(images.using(name))


@pytest.fixture
async def hosts(served: str, tmp_path: Path) -> AsyncIterator[Hosts]:
    async with AsyncExitStack() as stack:
        yield Hosts(served, tmp_path, stack)


def permit(monkeypatch: pytest.MonkeyPatch, *entries: str) -> None:
    monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update={"image_registries": list(entries)}))


@sync_to_async
def keep(name: str, content: bytes, layout: Layout) -> None:
    blob = make_blob(content)
    content = BlobRef(sha256=blob.sha256, size=blob.size)
    add_image(place=Place(name, None), layout=layout, content=content, by=make_user())


async def test_an_image_added_by_hand_is_unpacked_once_for_all_runs_of_a_host(hosts: Hosts, tmp_path: Path) -> None:
    archive = docker_archive(tmp_path / "i.tar", [layer(("usr/bin/tool", "x"))], Env=["A=1"], WorkingDir="/w")
    await keep("swe/task:1", archive.read_bytes(), "docker")
    runs = [await hosts.images() for _ in range(3)]
    names = ("swe/task:1", "docker.io/swe/task:1")
    found = await asyncio.gather(*(hosts.use(run, name) for run in runs for name in names))
    assert {(one.root, one.env["A"], one.workdir, one.served_as) for one in found} == {(found[0].root, "1", "/w", "")}
    assert found[1].name == "docker.io/swe/task:1"
    assert (found[0].root / "usr/bin/tool").read_text() == "x"


async def test_knowing_the_digest_of_an_image_that_was_added_does_not_give_it(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Published rollouts show digests, also of private images."""
    permit(monkeypatch, "docker.io=http://127.0.0.1:1")
    archive = docker_archive(tmp_path / "i.tar", [layer(("usr/bin/tool", "x"))])
    await keep("swe/task:1", archive.read_bytes(), "docker")
    found = await hosts.use(await hosts.images(), "swe/task:1")
    with pytest.raises(ImageLacking, match="not from a registry"):
        await hosts.use(await hosts.images(), f"python@{found.digest}")


@needs_registry
async def test_what_the_first_worker_pulls_is_what_all_pull(
    hosts: Hosts, registry: LocalRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    permit(monkeypatch, registry.entry)
    first = await hosts.use(await hosts.images("one"), "python:3.11")
    await asyncio.to_thread(registry.push, "library/python:3.11", [layer(("usr/bin/tool", "second"))])
    second = await hosts.use(await hosts.images("two"), "docker.io/library/python:3.11")
    assert (first.digest, (second.root / "usr/bin/tool").read_text()) == (second.digest, "first")
    assert first.served_as == ""
    assert [row.digest async for row in ImageRow.objects.all()] == [first.digest]
    permit(monkeypatch)  # no registry any more: the host has it, its name still means it
    assert (await hosts.use(await hosts.images("one"), "python:3.11")).digest == first.digest


async def test_the_hubs_image_stands_in_where_the_named_one_cannot_be_had(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = await hosts.images()
    assert [(await hosts.use(images, name)).served_as for name in ("hub/base", "python:3.11-slim", "ubuntu:22.04")] == [
        "", "hub/base", "hub/base",
    ]  # fmt: skip
    permit(monkeypatch, "docker.io=http://127.0.0.1:1")
    assert (await hosts.use(await hosts.images(), "python:3.11")).served_as == "hub/base"


@pytest.mark.parametrize("name", ["python:3.12-slim", "alpine:3", "ghcr.io/x/y", "no name", "../../etc"])
async def test_what_cannot_be_had_says_what_to_do(hosts: Hosts, name: str) -> None:
    with pytest.raises(ImageLacking) as lacking:
        await hosts.use(await hosts.images(), name)
    assert lacking.value.name == name
    assert "hub image add" in lacking.value.hint or "container engine" in lacking.value.hint


async def test_a_base_that_was_added_by_hand_stands_in_too(hosts: Hosts) -> None:
    await keep("hub/base", layer(("usr/bin/python3.12", "")), "rootfs")
    images = await hosts.images()
    base, other = await hosts.use(images, "hub/base"), await hosts.use(images, "python:3.12-slim")
    assert (other.root, other.served_as, base.env["LANG"]) == (base.root, "hub/base", "C.UTF-8")


async def test_a_broken_archive_is_told_and_leaves_nothing(hosts: Hosts, tmp_path: Path) -> None:
    await keep("swe/broken:1", b"x" * 2000, "docker")
    with pytest.raises(ImageLacking, match="cannot be unpacked"):
        await hosts.use(await hosts.images(), "swe/broken:1")
    assert [path.name for path in (tmp_path / "one/images").iterdir()] == [".locks"]


async def test_those_who_wait_for_an_image_are_told_of_one_failure_and_who_asks_later_tries_again(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keep("broken:1", b"x" * 2000, "docker")
    tried = list[Path]()

    def counted(archive: Path, *rest: Any) -> Any:
        tried.append(archive)
        return unpack(archive, *rest)

    monkeypatch.setattr("workers.images.sources.unpack", counted)
    images = await hosts.images()
    found = await asyncio.gather(*(hosts.use(images, "broken:1") for _ in range(9)), return_exceptions=True)
    assert [type(error) for error in found] == [ImageLacking] * 9
    assert len(tried) == 1
    with pytest.raises(ImageLacking):
        await hosts.use(images, "broken:1")
    assert len(tried) == 2


async def test_an_image_may_go_once_the_last_sandbox_on_it_has_ended(hosts: Hosts, tmp_path: Path) -> None:
    for number in (1, 2):
        archive = docker_archive(tmp_path / f"{number}.tar", [layer(("usr/bin/tool", str(number)))])
        await keep(f"swe/task:{number}", archive.read_bytes(), "docker")
    images = await hosts.images()
    small = Store(images.store.folder, max_bytes=0)
    async with images.using("swe/task:1") as first, images.using("swe/task:2"):
        async with images.using("docker.io/swe/task:1"):
            assert small.trim() == 0
        assert small.trim() == 0
    async with images.using("swe/task:2"):
        assert small.trim() == 1
        assert not first.root.exists()
        async with images.using("swe/task:1") as again:  # made anew
            assert (again.root / "usr/bin/tool").read_text() == "1"
