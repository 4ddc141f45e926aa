"""Boxes have no GPU: a package that needs torch gets the build for the CPU, wherever the operator has one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.workers.builds.resolving.test_resolve import ask
from tests.workers.package_index import PackageIndex
from tests.workers.wheels import make_wheel
from workers.builds.index.catalog import Catalog
from workers.builds.index.torch_builds import TorchBuilds
from workers.index.client import IndexClient
from workers.index.find_links import FindLinks

Catalogs = Callable[..., Catalog]


@pytest.fixture
async def cpu_index() -> AsyncIterator[PackageIndex]:
    """Like torch's own index for the CPU."""
    made = PackageIndex(json=False)
    async with made.serve():
        yield made


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def torch_catalog(
    catalog: Catalogs,
    index: PackageIndex,
    cpu_index: PackageIndex,
    http: httpx.AsyncClient,
    said: list[str],
    tmp_path: Path,
) -> Catalog:
    """The package index has torch 9 for CUDA, torch's own has 8 for the CPU."""
    index.add(make_wheel(tmp_path, "nvidia-cublas"), make_wheel(tmp_path, "torch", "9.0", requires=["nvidia-cublas"]))
    index.add(make_wheel(tmp_path, "user", requires=["torch>=1"]))
    cpu_index.add(make_wheel(tmp_path, "torch", "8.0+cpu"))
    own = IndexClient(http, [cpu_index.url], brief=True)
    return replace(catalog(), torch=TorchBuilds(own, said.append))


async def test_the_cpu_build_is_taken_and_nothing_of_cuda(torch_catalog: Catalog, data: Path) -> None:
    found = await ask(torch_catalog, data, "user")
    assert {name: one.version for name, one in found.items()} == {"user": "1.0", "torch": "8.0+cpu"}


async def test_a_version_that_only_cuda_has_is_still_had(torch_catalog: Catalog, data: Path) -> None:
    found = await ask(torch_catalog, data, "torch==9.0")
    assert {name: one.version for name, one in found.items()} == {"torch": "9.0", "nvidia-cublas": "1.0"}


async def test_a_conflict_elsewhere_does_not_bring_cuda(
    torch_catalog: Catalog, index: PackageIndex, kept_index: PackageIndex, data: Path, tmp_path: Path
) -> None:
    kept_index.add(make_wheel(tmp_path, "lost"))
    found = await ask(torch_catalog, data, "user", "lost")
    assert found["torch"].version == "8.0+cpu"


async def test_other_projects_are_not_asked_for_there(
    torch_catalog: Catalog, cpu_index: PackageIndex, data: Path
) -> None:
    await ask(torch_catalog, data, "user")
    assert set(cpu_index.asked) == {"torch"}


async def test_find_links_go_first_and_the_index_is_not_asked(
    torch_catalog: Catalog,
    index: PackageIndex,
    cpu_index: PackageIndex,
    http: httpx.AsyncClient,
    data: Path,
    tmp_path: Path,
) -> None:
    place = tmp_path / "links"
    make_wheel(place, "torch", "7.0+cpu")
    (place / "notes.txt").write_text("no archive")
    operator = IndexClient(http, [index.url], links=FindLinks(http, [str(place)]))
    found = await ask(replace(torch_catalog, operator=operator), data, "user")
    assert found["torch"].version == "7.0+cpu"
    assert found["torch"].file.url == (place / "torch-7.0+cpu-py3-none-any.whl").as_uri()
    assert cpu_index.asked == []


async def test_an_index_that_is_away_costs_the_preference_only(
    torch_catalog: Catalog, http: httpx.AsyncClient, said: list[str], data: Path, free_port: int
) -> None:
    away = TorchBuilds(IndexClient(http, [f"http://127.0.0.1:{free_port}/"], brief=True), said.append)
    found = await ask(replace(torch_catalog, torch=away), data, "user")
    assert found["torch"].version == "9.0"
    assert len(said) == 1
    assert "WORKER_TORCH_INDEX_URL" in said[0]


async def test_without_the_preference_the_package_index_decides(torch_catalog: Catalog, data: Path) -> None:
    assert (await ask(replace(torch_catalog, torch=None), data, "user"))["torch"].version == "9.0"
