"""/hf/...: the box's HF_ENDPOINT, forwarded to the hub's data cache with the run token, which the box never sees."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import unquote

import aiohttp
from aiohttp import web
from envhub.proxies import proxy_for, told
from multidict import CIMultiDict
from yarl import URL

from workers.rollouts.outside.files import HubFiles
from workers.runs.hub import RunClient

CHUNK = 256 * 1024
PASSED_ON = ("Content-Type", "Range", "If-None-Match", "If-Modified-Since", "Accept", "User-Agent")
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-encoding", "server", "date", "set-cookie"}
HINT = "a hub operator can configure HUB_HUGGINGFACE_URL, or add the data set with: hub data add OWNER/NAME DIRECTORY"
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=120)


@dataclass(frozen=True)
class DataSource:
    """The hub's cache: its base URL and the headers that authorise this run."""

    url: str
    headers: Mapping[str, str]
    http: aiohttp.ClientSession

    def files(self) -> HubFiles:
        """The hub's files of the outside, for the same run."""
        return HubFiles(self.url.removesuffix("/hf") + "/outside", self.url, self.headers, self.http)

    async def forward(self, request: web.Request) -> web.StreamResponse:
        """GET or HEAD, streamed; POST only to ask for paths."""
        if request.method == "POST" and "/paths-info/" not in request.path:
            return error(405, "read only")
        body = await request.read() if request.method == "POST" else None
        tail = request.raw_path.split("/hf/", 1)[1]
        if not is_plain(tail):
            return error(400, "bad path")
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        url = URL(f"{self.url.rstrip('/')}/{tail}", encoded=True)  # else yarl would decode and resolve it
        try:
            headers = {**headers, **self.headers}
            async with self.http.request(
                request.method, url, data=body, headers=headers, timeout=TIMEOUT, auto_decompress=False
            ) as upstream:
                return await relay(request, upstream)
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            return error(502, f"the hub's data cache does not answer: {told(problem)}")


@asynccontextmanager
async def open_data(run: RunClient, path: str = "/hf") -> AsyncIterator[DataSource]:
    """The hub's cache for a run."""
    url = run.absolute(path)
    async with aiohttp.ClientSession(proxy=proxy_for(url), trust_env=False) as http:
        yield DataSource(url, run.authorization(), http)


def is_plain(tail: str) -> bool:
    """Whether a path, however often it is decoded on its way, stays below /hf/: with the run's token, all that lies
    beside it would be the whole API that the run's worker may call."""
    path = tail.partition("?")[0]
    while (decoded := unquote(path)) != path:
        path = decoded
    return tail.isascii() and tail.isprintable() and "\\" not in path and not {".", ".."} & set(path.split("/"))


async def relay(request: web.Request, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    """The hub's answer, as it is."""
    kept = [(name, value) for name, value in upstream.headers.items() if name.lower() not in HOP_BY_HOP]
    response = web.StreamResponse(status=upstream.status, headers=CIMultiDict(kept))
    await response.prepare(request)
    if request.method != "HEAD":
        async for chunk in upstream.content.iter_chunked(CHUNK):
            await response.write(chunk)
    await response.write_eof()
    return response


def no_data() -> web.Response:
    """This run has no data source."""
    return error(404, f"this hub has no data cache for the run; {HINT}")


def error(status: int, message: str) -> web.Response:
    """As the Hugging Face hub reports errors."""
    return web.json_response({"error": message}, status=status, headers={"X-Error-Message": message[:500]})
