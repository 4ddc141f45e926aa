"""Real clients in a real box read the hub's files at their own addresses; what the hub lacks looks like no network."""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.workers.rollouts.outside_box import OutsideBox, outside_box
from workers.rollouts.environment import NPMRC, npm_settings
from workers.sandbox import BoxSpec, Destination, Outside, Sandbox, backend

pytestmark = pytest.mark.sandbox
URL = "https://raw.githubusercontent.com/someone/words/main/words.txt"
TEXT = "größe\nzwei\n".encode()
PROGRAM = "import subprocess, sys; print(ascii(subprocess.check_output([{}, sys.argv[1]]).decode()))"
READERS = {
    "curl": PROGRAM.format("'curl', '-sSf'"),
    "wget": PROGRAM.format("'wget', '-qO-'"),
    "requests": "import requests, sys; r = requests.get(sys.argv[1]); r.raise_for_status(); print(ascii(r.text))",
    "httpx": "import httpx, sys; r = httpx.get(sys.argv[1]); r.raise_for_status(); print(ascii(r.text))",
    "urllib": "import urllib.request, sys; print(ascii(urllib.request.urlopen(sys.argv[1]).read().decode()))",
    "aiohttp": """
import aiohttp, asyncio, sys
async def main():
    async with aiohttp.ClientSession(trust_env=True) as http, http.get(sys.argv[1]) as r:
        print(ascii(await r.text()))
asyncio.run(main())
""",
}


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ob-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture(params=["bwrap", "process"])
def sandbox(request: pytest.FixtureRequest, root: Path) -> Sandbox:
    return backend(request.param, root, accept_no_isolation=True)


async def hub_route(request: web.Request) -> web.StreamResponse:
    """As the hub's /outside."""
    assert request.headers["Authorization"] == "Bearer run-token"
    if request.query["url"] not in {URL, URL.replace("https", "http")}:
        return web.json_response({}, status=404, headers={"X-Error-Message": "the hub has no such file. hub data add"})
    return web.Response(body=TEXT, headers={"X-File-Type": "text/plain; charset=utf-8", "ETag": '"1"'})


async def data_route(request: web.Request) -> web.StreamResponse:
    """As the hub's data cache."""
    assert request.headers["Authorization"] == "Bearer run-token"
    return web.Response(body=b"kept")


COMMIT = "0" * 40
LISTED = [{"type": "file", "path": "x/y.csv", "oid": "1", "size": 4}]


async def cache_route(request: web.Request) -> web.StreamResponse:
    """As the hub's data cache answers for a data set of one file, a/b, which is all that it has."""
    kind, _, name = request.match_info["tail"].partition("/a/b")
    if not name:
        return web.json_response({}, status=404, headers={"X-Error-Code": "RepoNotFound", "X-Error-Message": "none"})
    if name == f"/tree/{COMMIT}" and request.query.get("recursive", "").lower() == "true":
        return web.json_response(LISTED)
    if name.startswith("/paths-info/"):
        return web.json_response(LISTED if b"y.csv" in await request.read() else [])
    if kind == "api/datasets":
        return web.json_response({"id": "a/b", "sha": COMMIT, "siblings": [{"rfilename": "x/y.csv"}]})
    if not name.endswith("/x/y.csv"):
        return web.json_response({}, status=404, headers={"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
    return web.Response(body=b"kept", headers={"ETag": '"1"', "X-Repo-Commit": COMMIT})


@pytest.fixture
async def hub() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/outside", hub_route)
    app.router.add_get("/hf/datasets/a/b/resolve/main/x.csv", data_route)
    app.router.add_route("*", "/hf/{tail:.*}", cache_route)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.fixture
async def opened(sandbox: Sandbox, root: Path, hub: str) -> AsyncIterator[OutsideBox]:
    async with outside_box(sandbox, root, hub, {"Authorization": "Bearer run-token"}) as found:
        yield found


@pytest.mark.parametrize("client", sorted(READERS))
@pytest.mark.parametrize("scheme", ["https", "http"])
async def test_a_file_that_the_hub_has_is_read_by_its_own_address(opened: OutsideBox, client: str, scheme: str) -> None:
    read = await opened.python(READERS[client], URL.replace("https", scheme))
    assert read.stdout.decode().strip() == ascii(TEXT.decode()), read.stderr.decode()[-2000:]
    assert not opened.interceptor.files_lacking


@pytest.mark.parametrize(
    ("client", "error"),
    [("requests", "ProxyError"), ("httpx", "RemoteProtocolError"), ("urllib", "RemoteDisconnected")],
)
async def test_what_the_hub_lacks_is_no_answer_and_is_told(opened: OutsideBox, client: str, error: str) -> None:
    read = await opened.python(READERS[client], f"{URL}x")
    assert read.exit_code == 1
    assert error in read.stderr.decode()
    assert opened.interceptor.files_lacking == {("GET", f"{URL}x"): None}
    assert opened.said[0] == f"no answer to GET {URL}x: the hub has no such file. hub data add"


async def test_what_datasets_asks_and_does_without_is_not_told(opened: OutsideBox) -> None:
    viewer = await opened.python(READERS["requests"], "http://datasets-server.127.0.0.1:80/hf/info?dataset=a/b")
    assert viewer.exit_code == 1
    assert not opened.said
    assert not opened.interceptor.files_lacking
    rows = "https://datasets-server.huggingface.co/rows?dataset=a/b"
    await opened.python(READERS["requests"], rows)
    assert ("GET", rows) in opened.interceptor.files_lacking


async def test_wget_gives_up_soon_on_what_the_hub_lacks(opened: OutsideBox) -> None:
    started = time.monotonic()
    lacking = await opened.python(READERS["wget"], f"{URL}x")
    assert lacking.exit_code == 1
    assert time.monotonic() - started < 30  # of its own it would try 20 times, in 155 s


async def test_a_file_of_a_data_set_is_read_by_its_public_address(opened: OutsideBox) -> None:
    url = "https://huggingface.co/datasets/a/b/resolve/main/x.csv"
    assert (await opened.python(READERS["requests"], url)).stdout == b"'kept'\n"
    assert (await opened.python(READERS["requests"], f"{url}/../y.csv")).exit_code == 1


async def test_hugging_faces_own_client_finds_a_data_set_at_its_public_address(opened: OutsideBox) -> None:
    code = """
import sys, huggingface_hub as hf
folder = hf.snapshot_download("a/b", repo_type="dataset", allow_patterns="x/**", local_dir=sys.argv[1])
print(open(folder + "/x/y.csv").read(), hf.file_exists("a/b", "other.csv", repo_type="dataset"))
print([one.path for one in hf.HfApi().get_paths_info("a/b", ["x/y.csv"], repo_type="dataset")])
hf.snapshot_download("a/none", repo_type="dataset")
"""
    read = await opened.python(code, "/tmp/data")
    assert read.stdout.decode().splitlines() == ["kept False", "['x/y.csv']"], read.stderr.decode()[-2000:]
    assert opened.interceptor.files_lacking == {
        ("GET", "https://huggingface.co/api/datasets/a/none/revision/main"): None
    }


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])
async def test_servers_in_the_box_are_reached_themselves(opened: OutsideBox, host: str) -> None:
    code = """
import http.server, httpx, requests, sys, threading, urllib.request
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://{sys.argv[1]}:{server.server_port}/"
print(requests.get(url).status_code, httpx.get(url).status_code, urllib.request.urlopen(url).status)
"""
    assert (await opened.python(code, host)).stdout == b"200 200 200\n"


async def test_nothing_is_sent_outside(opened: OutsideBox) -> None:
    code = "import requests, sys; requests.post(sys.argv[1], data='secret')"
    assert "ProxyError" in (await opened.python(code, URL)).stderr.decode()
    assert opened.interceptor.files_lacking == {("POST", URL): None}


async def test_the_gateway_is_reached_without_the_proxy(opened: OutsideBox) -> None:
    code = "import httpx, sys; print(httpx.get(sys.argv[1]).status_code)"
    url = f"{opened.box.gateway_url}/nowhere"
    assert (await opened.python(code, url)).stdout == b"404\n"


async def test_a_part_of_a_file_and_its_head(opened: OutsideBox) -> None:
    code = "import requests, sys; r = requests.head(sys.argv[1]); print(r.headers['content-length'], r.headers['etag'])"
    assert (await opened.python(code, URL)).stdout.split() == [str(len(TEXT)).encode(), b'"1"']


async def test_no_key_of_the_authority_is_in_the_box(opened: OutsideBox) -> None:
    code = "import os; text = open(os.environ['SSL_CERT_FILE']).read(); print(text.count('BEGIN'), 'PRIVATE' in text)"
    assert (await opened.python(code)).stdout == b"1 False\n"


async def test_a_granted_host_is_still_reached_itself(root: Path, sandbox: Sandbox, hub: str) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nreal")
        await writer.drain()
        writer.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        async with (
            await asyncio.start_server(greet, sock=listener),
            outside_box(
                sandbox, root, hub, {"Authorization": "Bearer run-token"}, allow=[Destination("127.0.0.1", port)]
            ) as box,
        ):
            code = "import requests, sys; print(requests.get(sys.argv[1]).text)"
            real = await box.python(code, f"http://127.0.0.1:{port}/", NO_PROXY="", no_proxy="")
            kept = await box.python(READERS["requests"], URL)
            trusted = await box.python("import os; print(open(os.environ['SSL_CERT_FILE']).read().count('BEGIN'))")
    assert real.stdout == b"real\n", real.stderr[-1000:]
    assert kept.exit_code == 0, kept.stderr[-1000:]
    assert int(trusted.stdout) > 20


@pytest.mark.skipif(shutil.which("npx") is None, reason="no npx on this machine")
async def test_npm_with_hardly_any_variable_asks_the_proxy_once(opened: OutsideBox) -> None:
    spec = BoxSpec(network="gateway", outside=Outside(Path(), Path(), b""))
    await opened.box.put(NPMRC, npm_settings(opened.box, spec).encode())
    command = ["npx", "--registry", "https://packages.example.org", "-y", "absent"]
    code = f"import os, subprocess; subprocess.run({command}, env={{k: os.environ[k] for k in ('HOME', 'PATH')}})"
    await opened.python(code)
    assert ("GET", "https://packages.example.org/absent") in opened.interceptor.files_lacking
