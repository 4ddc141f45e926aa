from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import httpx
import pytest
from aiohttp import web

from tests.serving import listening
from tests.workers.broken_upstream import ANSWERS, broken_upstream, raw_answer
from tests.workers.package_index import PackageIndex
from tests.workers.wheels import make_wheel
from workers.builds.index.catalog import Catalog
from workers.builds.index.gateway import IndexGateway
from workers.builds.index.tokens import HOST, FileAddresses
from workers.index.client import IndexClient
from workers.index.pages import IndexFile


async def nothing(_: IndexFile) -> str:
    raise AssertionError("no source was offered")


async def get(proxy: str, url: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(proxy=proxy, trust_env=False) as client:
        return await client.get(url, headers=headers)


async def test_only_addresses_that_it_made_itself_are_fetched(
    index: PackageIndex, catalog: Callable[..., Catalog], data: Path, tmp_path: Path
) -> None:
    other = FileAddresses(tmp_path / "another-key")
    forged = other.address(IndexFile("x-1.0-py3-none-any.whl", index.url), kind="wheel", owned=False)
    async with IndexGateway(catalog(), nothing).listen() as proxy:
        assert (await get(proxy, forged)).status_code == 404
        assert (await get(proxy, index.url)).status_code == 404  # no proxy for anything else
        assert (await get(proxy, f"http://{HOST}/wheel/x/y")).status_code == 404
    assert index.asked == []


async def test_an_address_for_a_wheel_is_none_for_a_source(data: Path) -> None:
    addresses = FileAddresses(data / "key")
    made = addresses.address(IndexFile("x-1.0-py3-none-any.whl", "https://h/x"), kind="wheel", owned=False)
    with pytest.raises(ValueError):
        addresses.read(made.replace("/wheel/", "/source/"))


async def test_files_pass_with_ranges_and_the_owners_password(
    owner_index: PackageIndex, catalog: Callable[..., Catalog], tmp_path: Path
) -> None:
    wheel = make_wheel(tmp_path, "mine")
    owner_index.add(wheel)
    gateway = IndexGateway(catalog(), nothing)
    async with gateway.listen() as proxy:
        page = (await get(proxy, gateway.roots("alice")[1] + "mine/")).json()
        url = page["files"][0]["url"]
        assert (await get(proxy, url)).content == wheel.read_bytes()
        part = await get(proxy, url, Range="bytes=0-3")
        assert (part.status_code, part.content) == (206, b"PK\x03\x04")


@pytest.mark.parametrize("answer", ANSWERS)
async def test_a_file_that_breaks_off_is_not_followed_by_another_answer(
    catalog: Callable[..., Catalog], answer: str
) -> None:
    gateway = IndexGateway(catalog(), nothing)
    async with broken_upstream(answer) as upstream, httpx.AsyncClient() as http:
        index = cast(IndexClient, SimpleNamespace(open=lambda url, headers, method: http.stream(method, url)))

        async def passed(request: web.Request) -> web.StreamResponse:
            return await gateway._pass(request, index, upstream)

        app = web.Application()
        app.router.add_get("/", passed)
        async with listening(app) as url:
            found = await raw_answer(f"{url}/")
    assert found.count(b"HTTP/1.1") == 1
    assert "cannot be fetched" in str(gateway.problem)


async def test_pages_hold_no_password_and_no_foreign_address(
    owner_index: PackageIndex, catalog: Callable[..., Catalog], tmp_path: Path
) -> None:
    owner_index.add(make_wheel(tmp_path, "mine"))
    gateway = IndexGateway(catalog(), nothing)
    async with gateway.listen() as proxy:
        page = await get(proxy, gateway.roots("alice")[1] + "mine/")
    assert "owner-secret" not in page.text
    assert all(file["url"].startswith(f"http://{HOST}/") for file in page.json()["files"])


async def test_an_index_that_refuses_is_the_infrastructures_fault(
    index: PackageIndex, catalog: Callable[..., Catalog]
) -> None:
    made = catalog()
    index.password = "changed"
    gateway = IndexGateway(made, nothing)
    async with gateway.listen() as proxy:
        assert (await get(proxy, gateway.roots("alice")[0] + "thing/")).status_code == 500
    assert "refuses" in str(gateway.problem)
