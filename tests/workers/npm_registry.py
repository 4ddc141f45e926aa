"""npm registries over real HTTP: one with one version of one package, and a real one with more than it has."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import quote

import aiohttp
from aiohttp import web

from tests.serving import listening


def archive(**members: str) -> bytes:
    """A package's archive; `__` in a member's name is a slash."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as tar:
        for name, text in members.items():
            entry = tarfile.TarInfo(f"package/{name.replace('__', '/')}")
            entry.size, entry.mode = len(text), 0o755
            tar.addfile(entry, io.BytesIO(text.encode()))
    return sink.getvalue()


@asynccontextmanager
async def registry(name: str, version: str, content: bytes, integrity: str = "") -> AsyncIterator[str]:
    """Its address. It promises `integrity`, by default the truth."""
    right = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
    path = f"{name}/-/{name.rpartition('/')[2]}-{version}.tgz"

    async def page(request: web.Request) -> web.Response:
        if request.match_info["name"] != name:
            raise web.HTTPNotFound
        dist = {"tarball": f"http://{request.host}/{path}", "integrity": integrity or right}
        versions = {version: {"name": name, "version": version, "dist": dist}}
        return web.json_response({"name": name, "dist-tags": {"latest": version}, "versions": versions})

    async def file(request: web.Request) -> web.Response:
        return web.Response(body=content)

    app = web.Application()
    app.router.add_get(f"/{path}", file)
    app.router.add_get("/{name:.+}", page)
    async with listening(app) as url:
        yield f"{url}/"


@asynccontextmanager
async def stand_ins(upstream: str, wanted: Mapping[str, tuple[str, str]]) -> AsyncIterator[str]:
    """The registry `upstream`; of a package in `wanted` that lacks the first version, the second one answers for it."""

    async def page(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        headers = {"Accept": request.headers.get("Accept", "*/*")}
        url = f"{upstream}{quote(name, safe='@')}"
        async with aiohttp.ClientSession(trust_env=True) as http, http.get(url, headers=headers) as answer:
            if not answer.ok:
                return web.Response(status=answer.status)
            found = await answer.json(content_type=None)
        version, other = wanted.get(name, ("", ""))
        if version and other in found["versions"]:
            found["versions"].setdefault(version, {**found["versions"][other], "version": version})
        return web.json_response(found)

    app = web.Application()
    app.router.add_get("/{name:.+}", page)
    async with listening(app) as url:
        yield f"{url}/"
