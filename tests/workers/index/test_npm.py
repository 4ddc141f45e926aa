"""The npm registry of sandboxes: the second time it needs no network."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.serving import listening
from tests.workers import npm_registry
from tests.workers.npm_registry import archive as packed
from workers.index.npm import KeptNpm, operator_registry, promised

NAME = "@e2e/thing"


def archive() -> bytes:
    return packed(**{"package.json": json.dumps({"name": NAME, "version": "1.0.0"}), "index.js": ""})


def registry(content: bytes, integrity: str = "") -> AbstractAsyncContextManager[str]:
    return npm_registry.registry(NAME, "1.0.0", content, integrity)


@asynccontextmanager
async def kept(folder: Path, upstream: str) -> AsyncIterator[str]:
    async with httpx.AsyncClient() as http:
        npm = KeptNpm(folder, http, upstream, "", most_bytes=10**6)
        async with listening(npm.application()) as url:
            npm._address = url
            yield url


async def test_npm_installs_from_it_and_again_without_the_registry(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")

    async def install(upstream: str, target: Path) -> list[str]:
        async with kept(tmp_path / "kept", upstream) as url:
            target.mkdir()
            environment = {
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "HOME": str(target),
                "npm_config_registry": f"{url}/",
            }
            command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(target), NAME]
            await asyncio.to_thread(subprocess.run, command, env=environment, check=True, capture_output=True)
        return [path.name for path in (target / "node_modules" / NAME).iterdir()]

    async with registry(archive()) as upstream:
        assert "index.js" in await install(upstream, tmp_path / "first")
    assert "index.js" in await install("http://127.0.0.1:9/", tmp_path / "second")


async def test_an_archive_that_is_not_what_was_promised_is_refused(tmp_path: Path) -> None:
    wrong = "sha512-" + base64.b64encode(bytes(64)).decode()
    async with registry(archive(), wrong) as upstream, kept(tmp_path, upstream) as url, httpx.AsyncClient() as http:
        page = (await http.get(f"{url}/@e2e%2fthing")).json()
        assert (await http.get(page["versions"]["1.0.0"]["dist"]["tarball"])).status_code == 502


async def test_a_package_is_missing_only_where_the_registry_says_so(tmp_path: Path) -> None:
    async with registry(archive()) as upstream, kept(tmp_path, upstream) as url, httpx.AsyncClient() as http:
        missing = await http.get(f"{url}/missing")
        told = "the npm registry of this worker's operator (127.0.0.1) has no package missing"
        assert (missing.status_code, missing.json()["error"]) == (404, told)
    async with kept(tmp_path, "http://127.0.0.1:9/") as url, httpx.AsyncClient() as http:
        assert [(await http.get(f"{url}/{name}")).status_code for name in ("missing", "never-asked")] == [404, 503]


async def test_lock_files_name_archives_by_the_registrys_own_paths(tmp_path: Path) -> None:
    content = archive()
    async with registry(content) as upstream, kept(tmp_path, upstream) as url, httpx.AsyncClient() as http:
        assert (await http.get(f"{url}/{NAME}/-/thing-1.0.0.tgz")).content == content
        assert (await http.get(f"{url}/{NAME}/-/thing-2.0.0.tgz")).status_code == 404


@pytest.mark.parametrize("path", ["/missing", "/-/files/0/x", "/..%2f..%2fetc", "/UPPER case"])
async def test_nothing_else_is_answered(tmp_path: Path, path: str) -> None:
    async with registry(archive()) as upstream, kept(tmp_path, upstream) as url, httpx.AsyncClient() as http:
        assert (await http.get(url + path)).status_code == 404


def test_the_registry_is_the_one_that_npm_uses_here(tmp_path: Path) -> None:
    (tmp_path / ".npmrc").write_text("registry = https://registry.example.org/npm\n")
    assert operator_registry({"HOME": str(tmp_path)}) == "https://registry.example.org/npm/"
    assert operator_registry({"npm_config_registry": "https://a.example.org"}) == "https://a.example.org/"


def test_a_broken_promise_is_none() -> None:
    assert promised("sha512-? sha1-abc") == ("sha256", b"")
