"""Boxes clone repositories of hosts that are let through; the second time without a network."""

from __future__ import annotations

import asyncio
import gzip
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from aiohttp import web

from tests.serving import listening
from tests.workers.git_server import GitServer, git
from workers.rollouts.outside.files import NotHere
from workers.rollouts.outside.repositories import Repositories, WithRepositories
from workers.sandbox import backend

pytestmark = pytest.mark.sandbox
GONE = "http://127.0.0.1:9"


class HubFiles:
    """Answers everything that is no repository."""

    async def answer(self, request: web.Request, asked: str) -> web.StreamResponse:
        return web.Response(text="a file of the hub")


@asynccontextmanager
async def outside(folder: Path, upstream: str) -> AsyncIterator[str]:
    """What a box asks, without TLS; only names that begin with `open` are let through."""

    async def source(url: str) -> str:
        path = urlsplit(url).path
        if not path.startswith("/open"):
            raise NotHere("the operator sets HUB_CLONE_HOSTS")
        return f"{upstream}{path}"

    files = WithRepositories(Repositories(folder, source, backend("bwrap", folder.with_name("boxes"))), HubFiles())

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await files.answer(request, f"https://git.example.org{request.raw_path}")
        except NotHere as reason:
            return web.Response(status=502, text=str(reason))

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    async with listening(app) as address:
        yield address


async def clone(url: str, target: Path, *options: str) -> bool:
    """Whether that went well."""
    command = ["git", "-c", "http.proxy=", "clone", "--quiet", *options, url, str(target)]
    return not (await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)).returncode


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[GitServer]:
    async with GitServer(tmp_path / "upstream").serve() as serving:
        serving.commit("open-lib", {"install.sh": "echo 1\n"}, tag="v1")
        serving.commit("closed-lib", {"install.sh": ""})
        yield serving


async def test_a_repository_is_cloned_and_again_when_its_host_is_gone(server: GitServer, tmp_path: Path) -> None:
    async with outside(tmp_path / "kept", server.url) as url:
        assert await clone(f"{url}/open-lib", tmp_path / "one")
    async with outside(tmp_path / "kept", GONE) as url:
        assert await clone(f"{url}/open-lib", tmp_path / "two", "--branch", "v1")
    for target in ("one", "two"):
        assert (tmp_path / target / "install.sh").read_text() == "echo 1\n"


async def test_each_of_those_who_clone_at_once_what_is_not_there_is_told(server: GitServer, tmp_path: Path) -> None:
    async with outside(tmp_path / "kept", server.url) as url, asyncio.timeout(30):
        cloned = (clone(f"{url}/open-gone", tmp_path / str(n)) for n in range(4))
        assert await asyncio.gather(*cloned) == [False] * 4


async def test_a_run_sees_one_state_of_a_repository_and_the_next_run_what_is_new(
    server: GitServer, tmp_path: Path
) -> None:
    for found in ("echo 1\n", "echo 2\n"):
        async with outside(tmp_path / "kept", server.url) as url:
            assert await clone(f"{url}/open-lib", tmp_path / f"first {found[5]}")
            server.commit("open-lib", {"install.sh": "echo 2\n"})
            assert await clone(f"{url}/open-lib", tmp_path / f"second {found[5]}")
            for target in ("first", "second"):
                assert (tmp_path / f"{target} {found[5]}" / "install.sh").read_text() == found


SHALLOW = {
    "depth": ("clone", "-q", "--depth", "1", "{url}", "{to}"),
    "depth of a tag": ("clone", "-q", "--depth", "1", "--branch", "v1", "{url}", "{to}"),
    "single branch": ("clone", "-q", "--single-branch", "{url}", "{to}"),
    "no blobs": ("clone", "-q", "--filter=blob:none", "{url}", "{to}"),
    "no trees": ("clone", "-q", "--filter=tree:0", "{url}", "{to}"),
    "old protocol": ("-c", "protocol.version=0", "clone", "-q", "--depth", "1", "{url}", "{to}"),
}


@pytest.mark.parametrize("how", SHALLOW)
async def test_parts_of_a_repository_are_cloned_also_without_a_network(
    server: GitServer, tmp_path: Path, how: str
) -> None:
    server.commit("open-lib", {"install.sh": "echo 2\n"}, tag="v2")
    for name, upstream in (("one", server.url), ("two", GONE)):
        async with outside(tmp_path / "kept", upstream) as url:
            words = [word.format(url=f"{url}/open-lib", to=tmp_path / name) for word in SHALLOW[how]]
            assert await git_says(*words) == ""
            found = (tmp_path / name / "install.sh").read_text()
            assert found == ("echo 1\n" if "tag" in how else "echo 2\n")
            commits = await git_says("-C", str(tmp_path / name), "rev-list", "--count", "HEAD")
            assert commits.strip() == ("1" if "--depth" in words else "2")


async def test_a_shallow_clone_is_deepened_and_a_commit_fetched_by_its_hash(server: GitServer, tmp_path: Path) -> None:
    first = server.commit("open-more", {"a": "1"})
    server.commit("open-more", {"a": "2"})
    server.commit("open-more", {"a": "3"})
    async with outside(tmp_path / "kept", server.url) as url:
        here = ("-C", str(tmp_path / "one"))
        await git_says("clone", "-q", "--depth", "1", f"{url}/open-more", here[1])
        await git_says(*here, "fetch", "-q", "--depth", "1", "origin", first)
        assert (await git_says(*here, "show", f"{first}:a")).strip() == "1"
        await git_says(*here, "fetch", "-q", "--unshallow")
        assert (await git_says(*here, "rev-list", "--count", "HEAD")).strip() == "3"


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
@pytest.mark.parametrize(("objects", "status"), [(30_000, 200), (700_000, 413)])
async def test_a_partial_clone_asks_for_many_objects_at_once(
    server: GitServer, tmp_path: Path, encoding: str, objects: int, status: int
) -> None:
    commit = server.commit("open-lib", {"install.sh": "echo 2\n"})
    asked = f"0032want {commit}\n".encode() * objects + b"00000009done\n"
    headers = {"Content-Type": "application/x-git-upload-pack-request", "Content-Encoding": encoding}
    async with outside(tmp_path / "kept", server.url) as url, httpx.AsyncClient(timeout=60) as http:
        content = gzip.compress(asked, 1) if encoding == "gzip" else asked
        answer = await http.post(f"{url}/open-lib/git-upload-pack", content=content, headers=headers)
    assert answer.status_code == status, answer.text
    assert (b"PACK" in answer.content) == (status == httpx.codes.OK)


async def test_git_says_what_was_refused(server: GitServer, tmp_path: Path) -> None:
    async with outside(tmp_path / "kept", server.url) as url:
        await git_says("init", "-q", str(tmp_path / "one"))
        asked = ("fetch", "-q", "--depth", "1", f"{url}/open-lib", "0" * 39 + "1")
        assert "not our ref" in await git_says("-C", str(tmp_path / "one"), *asked)


async def test_submodules_come_from_their_own_hosts(server: GitServer, tmp_path: Path) -> None:
    async with outside(tmp_path / "kept", server.url) as url:
        folder = server.root / "open-whole"
        server.commit("open-whole", {"a": "1"})
        await asyncio.to_thread(git, folder, "submodule", "--quiet", "add", f"{server.url}/open-lib", "lib")
        server.commit("open-whole", {".gitmodules": f'[submodule "lib"]\npath = lib\nurl = {url}/open-lib\n'})
        said = await git_says("clone", "-q", "--recursive", "--shallow-submodules", "--depth", "1", f"{url}/open-whole",
                              str(tmp_path / "one"))  # fmt: skip
        assert (tmp_path / "one" / "lib" / "install.sh").read_text() == "echo 1\n", said


async def git_says(*words: str) -> str:
    """All that a command prints."""
    command = ["git", "-c", "http.proxy=", "-c", "advice.detachedHead=false", *words]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/closed-lib/info/refs?service=git-upload-pack", 502, "HUB_CLONE_HOSTS"),
        ("/open-none/info/refs?service=git-upload-pack", 404, "not found"),
        ("/open-lib/info/refs", 200, "a file of the hub"),  # not asked by git
        ("/open-lib/objects/../../secret", 200, "a file of the hub"),
        ("/a@b/open-lib/info/refs?service=git-upload-pack", 200, "a file of the hub"),
    ],
)
async def test_what_is_no_repository_of_an_open_host(
    server: GitServer, tmp_path: Path, path: str, status: int, text: str
) -> None:
    async with outside(tmp_path / "kept", server.url) as url, httpx.AsyncClient(trust_env=False) as http:
        reply = await http.get(url + path)
        assert (reply.status_code, text in reply.text) == (status, True)
    assert not [asked for asked in server.asked if "closed" in asked]


async def test_a_host_that_is_away_looks_like_no_network(tmp_path: Path) -> None:
    async with outside(tmp_path / "kept", GONE) as url, httpx.AsyncClient(trust_env=False) as http:
        reply = await http.get(f"{url}/open-lib/info/refs?service=git-upload-pack")
        assert (reply.status_code, "cannot be cloned" in reply.text) == (502, True)
