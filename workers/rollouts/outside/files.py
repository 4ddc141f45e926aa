"""Fetches external files from the hub by their URL with the run's token, which the box never sees."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from envhub.protocol.registry.files import HUGGING_FACE
from envhub.proxies import told
from multidict import CIMultiDict
from yarl import URL

from workers.runs.broken_answers import whole_or_closed

READS = {"GET", "HEAD"}
CHUNK = 256 * 1024
LONGEST_URL = 2000
PASSED_ON = ("Range", "If-Range")
PASSED_BACK = ("Content-Length", "Content-Range", "Accept-Ranges", "ETag")
TYPE = "X-File-Type"  # header with the file's own type; the storage declares everything a download
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=900)  # the hub may first have to fetch the file
logger = logging.getLogger(__name__)


class NotHere(Exception):
    """Raised if the hub does not have something; the text says what to do."""


class Files(Protocol):
    """A source of files: the hub, the package stores, or a test's."""

    async def answer(self, request: web.Request, asked: str) -> web.StreamResponse: ...


@dataclass(frozen=True)
class HubFiles:
    """Files at the hub, with the headers that authorise this run.

    `data_set` answers requests to Hugging Face, given by the path and query of their URL.
    """

    url: str
    data_set: Callable[[web.Request, str], Awaitable[web.StreamResponse]]
    headers: Mapping[str, str]
    http: aiohttp.ClientSession

    async def answer(self, request: web.Request, asked: str) -> web.StreamResponse:
        """Answer with the file at the URL `asked`. Raises NotHere."""
        if len(asked) > LONGEST_URL or not asked.isascii():
            raise NotHere("its address is too long")
        parts = urlsplit(asked)
        if parts.hostname not in HUGGING_FACE:
            check_reads(request)
            return await self._relay(request, URL(self.url).with_query(url=asked))
        if request.method in READS:
            with suppress(NotHere):  # the hub may also keep the file by its full URL
                return await self._relay(request, URL(self.url).with_query(url=asked))
        return await self.data_set(request, parts._replace(scheme="", netloc="").geturl().lstrip("/"))

    async def _relay(self, request: web.Request, url: URL) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers} | dict(self.headers)
        try:
            async with self.http.request(
                request.method, url, headers=headers, timeout=TIMEOUT, auto_decompress=False
            ) as upstream:
                if not upstream.ok:
                    raise NotHere(await _reason(upstream))
                return await _pass_back(request, upstream)
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise NotHere(f"the hub does not answer: {told(problem)}") from problem


def check_reads(request: web.Request) -> None:
    """Raise NotHere unless a request only reads."""
    if request.method not in READS:
        raise NotHere("a box reads files, and has no network for anything else")


async def _reason(upstream: aiohttp.ClientResponse) -> str:
    """Return the hub's reason in one line."""
    told = upstream.headers.get("X-Error-Message", "")
    await upstream.release()
    return told or f"the hub answers {upstream.status}"


async def _pass_back(request: web.Request, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    """Stream the file as its own server would send it."""
    kept = CIMultiDict((name, upstream.headers[name]) for name in PASSED_BACK if name in upstream.headers)
    first = (*upstream.history, upstream)[0]  # the hub's own answer, before the redirect to the storage
    kept["Content-Type"] = first.headers.get(TYPE, "application/octet-stream")
    response = web.StreamResponse(status=upstream.status, headers=kept)
    await response.prepare(request)
    with whole_or_closed(request):
        if request.method != "HEAD":
            async for chunk in upstream.content.iter_chunked(CHUNK):
                await response.write(chunk)
        await response.write_eof()
    return response
