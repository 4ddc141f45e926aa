"""Public addresses that sandboxes ask, answered from the run's own stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from tests.workers.npm_registry import archive, registry
from tests.workers.package_index import PackageIndex
from tests.workers.wheels import make_wheel
from workers.index.client import IndexClient, connect
from workers.index.debian import KeptDebian
from workers.index.kept import KeptIndex
from workers.index.npm import KeptNpm
from workers.index.programs import Programs
from workers.index.settings import PYPI_FILES_HOST, PYPI_HOST
from workers.rollouts.outside.files import NotHere
from workers.rollouts.outside.public import FirstOf, Stores

RELEASES = "releases/download"
Client = TestClient[web.Request, web.Application]


class NoFiles:
    """A hub without files."""

    async def answer(self, request: web.Request, asked: str) -> web.StreamResponse:
        raise NotHere("the hub has no such file")


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    """Asks for what follows the first slash."""
    index = PackageIndex()
    opencode = registry("opencode-linux-x64", "1.2.15", archive(bin__opencode="a program"))
    async with index.serve(), opencode as npm_url, connect() as http:
        index.add(make_wheel(tmp_path, "thing"))
        kept = KeptIndex(tmp_path / "kept", IndexClient(http, [index.url]), most_bytes=10**6)
        npm = KeptNpm(tmp_path / "npm", http, npm_url, "http://gateway/npm", most_bytes=10**6)
        debian = KeptDebian(tmp_path / "debian", http, (), most_bytes=10**6)
        files = FirstOf(NoFiles(), Stores(kept, npm, Programs(tmp_path / "made", kept, npm), debian))

        async def answer(request: web.Request) -> web.StreamResponse:
            try:
                return await files.answer(request, request.raw_path[1:])
            except NotHere as reason:
                return web.Response(status=502, text=str(reason))

        app = web.Application()
        app.router.add_get("/{tail:.*}", answer)
        async with TestClient(TestServer(app)) as client:
            yield client


async def test_pip_finds_pages_and_archives_at_pypis_addresses(client: Client) -> None:
    page = await (await client.get(f"/https://{PYPI_HOST}/simple/Thing/")).text()
    name = "thing-1.0-py3-none-any.whl"
    assert name in page
    for place in (f"https://{PYPI_FILES_HOST}/packages/py3/t/thing", f"https://{PYPI_HOST}/files/0a"):
        assert (await (await client.get(f"/{place}/{name}")).read()).startswith(b"PK")


@pytest.mark.parametrize("maker", ["anomalyco", "sst"])
async def test_a_release_on_github_whose_program_npm_has(client: Client, maker: str) -> None:
    release = f"https://github.com/{maker}/opencode/{RELEASES}/v1.2.15/opencode-linux-x64.tar.gz"
    assert (await (await client.get(f"/{release}")).read()).startswith(b"\x1f\x8b")
    assert "1.2.15" in await (await client.get("/https://opencode.ai/install")).text()


@pytest.mark.parametrize(
    "url",
    [
        f"https://github.com/somebody/opencode/{RELEASES}/v1.2.15/opencode-linux-x64.tar.gz",
        f"https://github.com/sst/opencode/{RELEASES}/v1.2.15/opencode-linux-x64-other.tar.gz",
        f"https://github.com/sst/opencode/{RELEASES}/v1.2.16/opencode-linux-x64.tar.gz",
        f"https://github.com/openai/codex/{RELEASES}/rust-v1.2.15/codex-x86_64-unknown-linux-musl.tar.gz",
        f"https://{PYPI_HOST}/simple/other/../thing/x",
        f"https://{PYPI_FILES_HOST}/packages/a/passwd",
        "https://nodejs.org/dist/v1.2.3/node-v9.9.9-linux-x64.tar.gz",
        "https://nodejs.org/dist/v1.2.3/node-v1.2.3-linux-x64.tar.gz",
        "https://example.org/simple/thing/",
    ],
)
async def test_anything_else_is_lacking_in_the_hubs_words(client: Client, url: str) -> None:
    reply = await client.get(f"/{url}")
    assert (reply.status, await reply.text()) == (502, "the hub has no such file")


async def test_a_registry_that_does_not_answer_is_a_plain_refusal(client: Client) -> None:
    assert (await client.get("/https://127.0.0.1/nothing")).status == 404
