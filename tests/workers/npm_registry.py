"""An npm registry with one version of one package, over real HTTP."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

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
