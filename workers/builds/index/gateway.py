"""The package index that uv sees during one build: an HTTP server on loopback, used by uv as its proxy.

This gives uv, which reads hostile metadata, no credentials and no other address. It decides which index each name
comes from (see `catalog`), and builds a source into a wheel when uv first asks for its metadata.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import httpx
from aiohttp import web
from packaging.utils import canonicalize_name

from workers.builds.index.catalog import Catalog, Page
from workers.builds.index.tokens import HOST
from workers.index.client import IndexClient
from workers.index.errors import index_away
from workers.index.pages import JSON_TYPE, IndexFile
from workers.runs.broken_answers import whole_or_closed

CHUNK = 256 * 1024
PAGE_SECONDS = 3600  # a failed resolution is repeated with fresh pages
Metadata = Callable[[IndexFile], Awaitable[str]]  # returns a source's METADATA by building it; raises BuildFailed
Answer = TypeVar("Answer")
_PASSED = ("Content-Type", "Content-Length", "Content-Range", "ETag", "Last-Modified")


class IndexGateway:
    """Serves the index. `problem` is why a request could not be answered, which explains uv's failure best."""

    def __init__(self, catalog: Catalog, metadata_of: Metadata) -> None:
        self._catalog = catalog
        self._metadata_of = metadata_of
        self.problem: Exception | None = None

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[str]:
        """Listen and yield the proxy's URL."""
        app = web.Application()
        app.router.add_get("/{view}/operator/simple/{project}/", self._operator)
        app.router.add_get("/{view}/owner/{owner}/simple/{project}/", self._owner)
        app.router.add_get("/{kind:wheel|source}/{token}/{filename}", self._file)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = runner.addresses[0][1]
            yield f"http://127.0.0.1:{port}"
        finally:
            await runner.cleanup()

    def roots(self, owner: str) -> tuple[str, str]:
        """Return uv's index URLs (operator's, owner's). Different views have different URLs, since uv caches pages."""
        catalog = self._catalog
        own = sorted([*catalog.claimed, *(f"{name} {one.wheel.sha256}" for name, one in catalog.direct.items())])
        claims = hashlib.sha256("\n".join(own).encode()).hexdigest()[:8] if own else "0"
        tries = f"{int(catalog.second_try)}{int(catalog.all_torch)}"
        cut = f"-{catalog.cut.key}" if catalog.cut else ""
        view = f"{catalog.interpreter.cache_tag}-{tries}-{claims}{cut}"
        return f"http://{HOST}/{view}/operator/simple/", f"http://{HOST}/{view}/owner/{owner}/simple/"

    async def _operator(self, request: web.Request) -> web.Response:
        project = canonicalize_name(request.match_info["project"])
        page = await self._answer(self._catalog.operator_page(project))
        return _page(page, f"max-age={PAGE_SECONDS}" if self._catalog.lasts(project) else "no-store", request)

    async def _owner(self, request: web.Request) -> web.Response:
        project = canonicalize_name(request.match_info["project"])
        return _page(await self._answer(self._catalog.owner_page(project)), "no-store", request)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        try:
            kind, file, owned = self._catalog.addresses.read(request.path)
        except ValueError as error:
            raise web.HTTPNotFound from error
        if kind == "source":
            if not request.path.endswith(".metadata"):
                raise web.HTTPNotFound
            text = await self._answer(self._metadata_of(file))
            return web.Response(text=text, headers={"Cache-Control": "max-age=31536000, immutable"})
        direct = next((one for one in self._catalog.direct.values() if one.wheel.sha256 == file.sha256), None)
        if direct is not None and request.path.endswith(".metadata"):
            return web.Response(text=direct.plain_metadata)
        client = self._catalog.client(file, owned=owned)
        url = file.url + ".metadata" if request.path.endswith(".metadata") else file.url
        if url.startswith("file://"):
            return web.FileResponse(Path(unquote(urlsplit(url).path)))
        return await self._pass(request, client, url)

    async def _pass(self, request: web.Request, client: IndexClient, url: str) -> web.StreamResponse:
        wanted = {name: request.headers[name] for name in ("Range",) if name in request.headers}
        wanted["Accept-Encoding"] = "identity"
        try:
            async with client.open(url, wanted, request.method) as upstream:
                headers = {name: upstream.headers[name] for name in _PASSED if name in upstream.headers}
                headers |= {"Cache-Control": "max-age=31536000, immutable", "Accept-Ranges": "bytes"}
                response = web.StreamResponse(status=upstream.status_code, headers=headers)
                await response.prepare(request)
                with whole_or_closed(request):
                    if request.method != "HEAD":
                        async for chunk in upstream.aiter_raw(CHUNK):
                            await response.write(chunk)
                    await response.write_eof()
                return response
        except ConnectionResetError:  # uv has read enough of the file
            return web.Response(status=499)
        except httpx.HTTPError as error:
            self.problem = self.problem or index_away(f"{url} cannot be fetched: {error!r}")
            raise web.HTTPBadGateway from error

    async def _answer(self, answer: Awaitable[Answer]) -> Answer:
        """Return the awaited answer. An exception is kept for the build, and uv gets a plain error."""
        try:
            return await answer
        except Exception as problem:
            self.problem = self.problem or problem
            raise web.HTTPInternalServerError from problem


def _page(page: Page | None, caching: str, request: web.Request) -> web.Response:
    if page is None:
        raise web.HTTPNotFound
    body = json.dumps(page, sort_keys=True).encode()
    etag = hashlib.sha256(body).hexdigest()[:32]
    headers = {"Content-Type": JSON_TYPE, "Cache-Control": caching, "ETag": f'"{etag}"'}
    if request.headers.get("If-None-Match") == f'"{etag}"':
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, headers=headers)
