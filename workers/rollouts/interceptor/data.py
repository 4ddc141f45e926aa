"""Serves /hf/..., the box's HF_ENDPOINT, from the hub's data cache with the run token, which the box never sees."""

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

from workers.rollouts.outside.files import READS, HubFiles, NotHere
from workers.runs.broken_answers import whole_or_closed
from workers.runs.hub import RunClient

CHUNK = 256 * 1024
ERROR_CODE = "X-Error-Code"
NO_REPOSITORY = "RepoNotFound"  # the hub's error code for an unknown repository
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
        """Return the hub's external files, for the same run."""
        return HubFiles(self.url.removesuffix("/hf") + "/outside", self.at_public_address, self.headers, self.http)

    async def forward(self, request: web.Request) -> web.StreamResponse:
        """Forward a GET or HEAD and stream the answer; POST is allowed only to ask which paths exist."""
        tail = request.raw_path.split("/hf/", 1)[1]
        if not is_read(request):
            return error(405, "read only")
        if not is_plain(tail):
            return error(400, "bad path")
        try:
            async with self._asked(request, tail) as upstream:
                return await relay(request, upstream)
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            return error(502, f"the hub's data cache did not respond: {told(problem)}")

    async def at_public_address(self, request: web.Request, tail: str) -> web.StreamResponse:
        """Forward a request made to Hugging Face's public address.

        Clients in sandboxes, which no HF_ENDPOINT leads here, make such requests. For a repository that the hub
        keeps, its refusals are answers too. Raises NotHere.
        """
        if not is_read(request) or not is_plain(tail):
            raise NotHere("a box reads files, and has no network for anything else")
        try:
            async with self._asked(request, tail) as upstream:
                refusal = upstream.headers.get(ERROR_CODE, "")
                if not upstream.ok and refusal in ("", NO_REPOSITORY):
                    raise NotHere(upstream.headers.get("X-Error-Message") or f"the hub answers {upstream.status}")
                return await relay(request, upstream)
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise NotHere(f"the hub's data cache did not respond: {told(problem)}") from problem

    @asynccontextmanager
    async def _asked(self, request: web.Request, tail: str) -> AsyncIterator[aiohttp.ClientResponse]:
        body = await request.read() if request.method == "POST" else None
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        url = URL(f"{self.url.rstrip('/')}/{tail}", encoded=True)  # unencoded, yarl would decode and resolve it
        async with self.http.request(
            request.method, url, data=body, headers={**headers, **self.headers}, timeout=TIMEOUT, auto_decompress=False
        ) as upstream:
            yield upstream


@asynccontextmanager
async def open_data(run: RunClient, path: str = "/hf") -> AsyncIterator[DataSource]:
    """Open the hub's data cache for a run."""
    url = run.absolute(path)
    async with aiohttp.ClientSession(proxy=proxy_for(url), trust_env=False) as http:
        yield DataSource(url, run.authorization(), http)


def is_read(request: web.Request) -> bool:
    """Return whether a request only reads. Clients use POST to ask which of some paths exist."""
    return request.method in READS or (request.method == "POST" and "/paths-info/" in request.path)


def is_plain(tail: str) -> bool:
    """Return whether a path stays below /hf/, however often it is decoded on its way.

    Any other path would let the box call the worker's whole API with the run's token.
    """
    path = tail.partition("?")[0]
    while (decoded := unquote(path)) != path:
        path = decoded
    return tail.isascii() and tail.isprintable() and "\\" not in path and not {".", ".."} & set(path.split("/"))


async def relay(request: web.Request, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    """Stream the hub's answer unchanged."""
    kept = [(name, value) for name, value in upstream.headers.items() if name.lower() not in HOP_BY_HOP]
    response = web.StreamResponse(status=upstream.status, headers=CIMultiDict(kept))
    await response.prepare(request)
    with whole_or_closed(request):
        if request.method != "HEAD":
            async for chunk in upstream.content.iter_chunked(CHUNK):
                await response.write(chunk)
        await response.write_eof()
    return response


def no_data() -> web.Response:
    """Answer that this run has no data source."""
    return error(404, f"this hub has no data cache for the run; {HINT}")


def error(status: int, message: str) -> web.Response:
    """Answer with an error in the Hugging Face hub's form."""
    return web.json_response({"error": message}, status=status, headers={"X-Error-Message": message[:500]})
