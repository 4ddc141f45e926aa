"""The package index of sandboxes: the second time it needs no network."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from aiohttp import web

from tests.workers.package_index import PackageIndex
from tests.workers.wheels import make_wheel
from workers.index.client import IndexClient
from workers.index.kept import KeptIndex

GONE = "http://127.0.0.1:9/simple/"


@asynccontextmanager
async def served(root: str, http: httpx.AsyncClient, folder: Path) -> AsyncIterator[str]:
    kept = KeptIndex(folder, IndexClient(http, [root], brief=True), most_bytes=10**6)
    runner = web.AppRunner(kept.application())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def wheels(url: str, http: httpx.AsyncClient, name: str, accept: str = "application/json") -> list[str]:
    reply = await http.get(f"{url}/simple/{name}/", headers={"Accept": accept})
    return [file["filename"] for file in reply.json()["files"]] if reply.status_code == 200 else []


async def test_what_was_fetched_is_there_without_the_index(
    index: PackageIndex, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    index.add(wheel := make_wheel(tmp_path, "thing"), make_wheel(tmp_path, "thing", version="2.0"))
    async with served(index.url, http, tmp_path / "kept") as url:
        page = (await http.get(f"{url}/simple/Thing/", headers={"Accept": "application/json"})).json()
        entry = next(file for file in page["files"] if file["filename"] == wheel.name)
        got = await http.get(f"{url}/simple/thing/{entry['url']}")
        assert got.content == wheel.read_bytes()
    async with served(GONE, http, tmp_path / "kept") as url:
        assert await wheels(url, http, "thing") == [wheel.name]  # the other one is not kept
        assert (await http.get(f"{url}/simple/thing/{entry['url']}")).content == wheel.read_bytes()


async def test_a_project_is_missing_only_where_the_index_says_so(
    index: PackageIndex, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path, "thing"))
    index.failing = {"thing"}
    async with served(index.url, http, tmp_path / "kept") as url:
        answers = [(await http.get(f"{url}/simple/{name}/")).status_code for name in ("thing", "thing", "missing")]
    assert answers == [503, 200, 404]
    async with served(GONE, http, tmp_path / "kept") as url:
        answers = [(await http.get(f"{url}/simple/{name}/")).status_code for name in ("missing", "never-asked")]
    assert answers == [404, 503]


async def test_an_archive_that_is_not_what_the_index_promised_is_not_kept(
    index: PackageIndex, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    index.add(wheel := make_wheel(tmp_path, "thing"))
    async with served(index.url, http, tmp_path / "kept") as url:
        page = (await http.get(f"{url}/simple/thing/", headers={"Accept": "application/json"})).json()
        wheel.write_bytes(wheel.read_bytes() + b"more")
        assert (await http.get(f"{url}/simple/thing/{page['files'][0]['url']}")).status_code == 502
    assert not list((tmp_path / "kept" / "files").iterdir())


@pytest.mark.parametrize("asked", ["/simple/..%2f..%2fetc/", "/simple/missing/", "/files/0/thing", "/files/../etc/x"])
async def test_nothing_else_is_answered(
    index: PackageIndex, http: httpx.AsyncClient, tmp_path: Path, asked: str
) -> None:
    async with served(index.url, http, tmp_path / "kept") as url:
        assert (await http.get(url + asked)).status_code == 404


async def test_pip_installs_from_it(index: PackageIndex, http: httpx.AsyncClient, tmp_path: Path) -> None:
    index.add(make_wheel(tmp_path, "thing"))
    async with served(index.url, http, tmp_path / "kept") as url:
        command = [sys.executable, "-m", "pip", "download", "--no-cache-dir", "-q", "-d", str(tmp_path / "got")]
        command += ["--no-deps", "--isolated", "-i", f"{url}/simple/", "thing"]
        await asyncio.to_thread(subprocess.run, command, check=True, env={})
    assert [path.name for path in (tmp_path / "got").iterdir()] == ["thing-1.0-py3-none-any.whl"]
