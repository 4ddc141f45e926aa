from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from envhub.protocol.registry.builds import LockedWheel

from tests.workers.builds.sdists import make_sdist
from tests.workers.package_index import PackageIndex
from tests.workers.wheels import make_wheel
from workers.builds.errors import BuildFailed
from workers.builds.index.catalog import Catalog
from workers.builds.resolving.resolve import Chosen, Question, resolve
from workers.builds.sources.building import Sources
from workers.builds.sources.wheel_files import WheelFiles
from workers.sandbox import BoxKilled, backend

pytestmark = pytest.mark.sandbox


class Exchange:
    """The hub's wheel store as a dictionary."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[LockedWheel, Path]] = {}
        self.shared = 0

    async def find(self, key: str) -> tuple[LockedWheel, Path] | None:
        return self.known.get(key)

    async def share(self, key: str, wheel: LockedWheel, path: Path) -> tuple[LockedWheel, Path]:
        self.shared += 1
        return self.known.setdefault(key, (wheel, path))


Workbench = Callable[..., Sources]


@pytest.fixture
def exchange() -> Exchange:
    return Exchange()


@pytest.fixture
def sources(catalog: Callable[..., Catalog], data: Path, exchange: Exchange) -> Workbench:
    """A worker's source builder; another `worker` is another disk."""

    def make(worker: str = "one") -> Sources:
        own = data / worker
        sandbox = backend("bwrap", own / "boxes")
        files = WheelFiles(own / "blobs")
        return Sources(catalog(), files, exchange, sandbox, own / "venvs", own / "sources", own / "uv", print)

    return make


async def lock(sources: Sources, *requirements: str) -> dict[str, Chosen]:
    found = await resolve(Question(requirements), sources.catalog, sources.metadata, cache=sources.uv_cache)
    return {one.name: one for one in found}


async def test_a_project_without_wheels_becomes_one(index: PackageIndex, sources: Workbench, tmp_path: Path) -> None:
    index.add(make_sdist(tmp_path, "oldlib", requires=["below"]), make_wheel(tmp_path, "below"))
    worker = sources()
    found = await lock(worker, "oldlib")
    assert set(found) == {"oldlib", "below"}
    assert found["oldlib"].source
    wheel, path = await worker.wheel(found["oldlib"].file)
    assert (wheel.filename, wheel.built_from_source) == ("oldlib-1.0-py3-none-any.whl", True)
    assert path.stat().st_size == wheel.size


async def test_a_source_is_built_once_for_all_workers(
    index: PackageIndex, sources: Workbench, exchange: Exchange, tmp_path: Path
) -> None:
    index.add(make_sdist(tmp_path, "oldlib"))
    wheels = []
    for worker in (sources("one"), sources("one"), sources("two")):
        found = await lock(worker, "oldlib")
        wheels.append((await worker.wheel(found["oldlib"].file))[0].sha256)
    assert exchange.shared == 1
    assert len(set(wheels)) == 1


async def test_a_wheel_is_preferred_to_a_newer_source(index: PackageIndex, sources: Workbench, tmp_path: Path) -> None:
    index.add(make_wheel(tmp_path, "lib", "1.0"), make_sdist(tmp_path, "lib", "2.0"))
    assert (await lock(sources(), "lib"))["lib"].version == "1.0"


async def test_a_source_is_built_when_only_it_will_do(index: PackageIndex, sources: Workbench, tmp_path: Path) -> None:
    index.add(make_wheel(tmp_path, "lib", "1.0"), make_sdist(tmp_path, "lib", "2.0"))
    found = (await lock(sources(), "lib>=2"))["lib"]
    assert (found.version, found.source) == ("2.0", True)


async def test_build_requirements_are_installed_for_the_build(
    index: PackageIndex, sources: Workbench, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path, "buildtool", files={"buildtool.py": "ready = True\n"}))
    index.add(make_sdist(tmp_path, "oldlib", build_requires=["buildtool"], before="import buildtool; buildtool.ready"))
    assert (await lock(sources(), "oldlib"))["oldlib"].source


async def test_a_build_requirement_shadowed_by_the_owner_is_not_taken(
    index: PackageIndex, owner_index: PackageIndex, sources: Workbench, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path / "a", "buildtool", "1.0", {"buildtool.py": "whose = 'operator'\n"}))
    owner_index.add(make_wheel(tmp_path / "b", "buildtool", "9.0", {"buildtool.py": "whose = 'owner'\n"}))
    check = "import buildtool; assert buildtool.whose == 'operator', buildtool.whose"
    index.add(make_sdist(tmp_path, "oldlib", build_requires=["buildtool"], before=check))
    assert (await lock(sources(), "oldlib"))["oldlib"].source
    assert "buildtool" not in owner_index.asked


async def test_a_build_requirement_that_only_the_owner_has_is_a_failure(
    index: PackageIndex, owner_index: PackageIndex, sources: Workbench, tmp_path: Path
) -> None:
    owner_index.add(make_wheel(tmp_path, "buildtool"))
    index.add(make_sdist(tmp_path, "oldlib", build_requires=["buildtool"]))
    await fails(lock(sources(), "oldlib"), "build requirements cannot be had")


async def test_an_owners_source_is_never_built(
    index: PackageIndex, owner_index: PackageIndex, sources: Workbench, tmp_path: Path
) -> None:
    owner_index.add(make_sdist(tmp_path, "oldlib"))
    with pytest.raises(BuildFailed) as caught:
        await lock(sources(), "oldlib")
    assert caught.value.code == "dependency_conflict"


async def test_a_backend_that_fails_is_named_with_its_output(
    index: PackageIndex, sources: Workbench, tmp_path: Path
) -> None:
    index.add(make_sdist(tmp_path, "oldlib", before="print('compiling'); raise RuntimeError('no luck')"))
    failure = await fails(lock(sources(), "oldlib"), r"oldlib-1\.0\.tar\.gz does not build: .*no luck")
    assert "compiling" in failure.detail


async def test_a_build_that_was_killed_from_outside_is_no_fault_of_the_source(
    index: PackageIndex, sources: Workbench, tmp_path: Path
) -> None:
    index.add(make_sdist(tmp_path, "oldlib", before="import os; os.kill(os.getpid(), 9)"))
    with pytest.raises(BoxKilled, match=r"oldlib-1\.0\.tar\.gz was killed"):
        await lock(sources(), "oldlib")


async def test_a_missing_compiler_is_named(index: PackageIndex, sources: Workbench, tmp_path: Path) -> None:
    text = "error: command 'gcc' failed: No such file or directory"
    index.add(make_sdist(tmp_path, "oldlib", before=f'raise SystemExit("{text}")'))
    failure = await fails(lock(sources(), "oldlib"), "needs a C compiler")
    assert "gcc" in failure.failure.hint


async def test_a_backend_that_makes_another_projects_wheel_is_refused(
    index: PackageIndex, sources: Workbench, tmp_path: Path
) -> None:
    index.add(make_sdist(tmp_path, "oldlib", before="global NAME, STEM; NAME, STEM = 'numpy', 'numpy-1.0'"))
    await fails(lock(sources(), "oldlib"), "something else")


async def test_a_backend_cannot_leave_its_box(index: PackageIndex, sources: Workbench, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as outside:
        os.chmod(outside, 0o777)
        port = index.url.split(":")[2].split("/")[0]
        attack = f"""
import socket
for action in (lambda: open({outside!r} + "/escaped", "w"), lambda: open("/etc/shadow").read(),
               lambda: socket.create_connection(("127.0.0.1", {port}), 2)):
    try:
        action()
    except OSError:
        continue
    raise SystemExit("escaped")
""".strip()
        index.add(make_sdist(tmp_path, "oldlib", before=attack))
        assert (await lock(sources(), "oldlib"))["oldlib"].source
        assert os.listdir(outside) == []


async def fails(attempt: Awaitable[object], message: str) -> BuildFailed:
    """The failure that a source causes."""
    with pytest.raises(BuildFailed, match=message) as caught:
        await attempt
    assert caught.value.code == "source_does_not_build"
    return caught.value


async def test_what_needs_pkg_resources_is_built_with_the_setuptools_that_had_it(
    index: PackageIndex, sources: Workbench, tmp_path: Path
) -> None:
    lacking = make_wheel(tmp_path, "setuptools", "82.0")
    having = make_wheel(tmp_path, "setuptools", "80.9", files={"pkg_resources.py": ""})
    index.add(make_sdist(tmp_path, "oldlib", build_requires=["setuptools"], before="import pkg_resources"))
    index.add(lacking, having)
    worker = sources()
    wheel, _ = await worker.wheel((await lock(worker, "oldlib"))["oldlib"].file)
    assert wheel.version == "1.0"
