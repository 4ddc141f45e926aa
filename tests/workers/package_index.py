"""A package index over HTTP for tests: PEP 691 JSON or PEP 503 HTML, with or without PEP 658 metadata; it counts."""

from __future__ import annotations

import hashlib
import html
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import BasicAuth, web
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

JSON = "application/vnd.pypi.simple.v1+json"


@dataclass
class PackageIndex:
    """Serves what was added. `asked` are the projects that anybody asked for, in order."""

    json: bool = True
    metadata: bool = True
    password: str = ""
    failing: set[str] = field(default_factory=set)  # projects for whose pages there is a 503, once
    files_at: str = "/files"
    yanked: set[str] = field(default_factory=set)  # file names
    uploaded: dict[str, str] = field(default_factory=dict)  # file name -> time
    files: dict[str, dict[str, Path]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def add(self, *paths: Path) -> None:
        """Offer these wheels and sdists."""
        for path in paths:
            parse = parse_wheel_filename if path.suffix == ".whl" else parse_sdist_filename
            self.files.setdefault(canonicalize_name(parse(path.name)[0]), {})[path.name] = path

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """The index's root URL while it listens."""
        app = web.Application()
        app.router.add_get("/simple/{project}/", self._project)
        app.router.add_get("/files/{project}/{filename}", self._file)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/simple/"
        try:
            yield self.url
        finally:
            await runner.cleanup()

    def _check(self, request: web.Request) -> None:
        given = request.headers.get("Authorization")
        if self.password and (given is None or BasicAuth.decode(given).password != self.password):
            raise web.HTTPUnauthorized

    async def _project(self, request: web.Request) -> web.Response:
        self._check(request)
        project = request.match_info["project"]
        self.asked.append(project)
        if project in self.failing:
            self.failing.remove(project)
            raise web.HTTPServiceUnavailable
        if project not in self.files:
            raise web.HTTPNotFound
        entries = [self._entry(project, path) for path in self.files[project].values()]
        if self.json:
            return web.json_response({"meta": {"api-version": "1.1"}, "files": entries}, content_type=JSON)
        return web.Response(text="".join(self._link(entry) for entry in entries), content_type="text/html")

    def _entry(self, project: str, path: Path) -> dict[str, object]:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        own = self.metadata and path.suffix == ".whl"
        entry: dict[str, object] = {"filename": path.name, "url": f"{self.files_at}/{project}/{path.name}"}
        entry |= {"hashes": {"sha256": digest}, "core-metadata": own, "yanked": path.name in self.yanked}
        return entry | ({"upload-time": self.uploaded[path.name]} if path.name in self.uploaded else {})

    def _link(self, entry: dict[str, object]) -> str:
        hashes = entry["hashes"]
        assert isinstance(hashes, dict)
        attribute = ' data-core-metadata="true"' if entry["core-metadata"] else ""
        name = html.escape(str(entry["filename"]))
        return f'<a href="{entry["url"]}#sha256={hashes["sha256"]}"{attribute}>{name}</a>'

    async def _file(self, request: web.Request) -> web.StreamResponse:
        self._check(request)
        project, filename = request.match_info["project"], request.match_info["filename"]
        path = self.files.get(project, {}).get(filename.removesuffix(".metadata"))
        if path is None or (filename.endswith(".metadata") and not self.metadata):
            raise web.HTTPNotFound
        if not filename.endswith(".metadata"):
            return web.FileResponse(path)
        with zipfile.ZipFile(path) as archive:
            name = next(member for member in archive.namelist() if member.endswith(".dist-info/METADATA"))
            return web.Response(body=archive.read(name))
