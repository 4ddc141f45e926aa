"""The hub as one build run sees it, over real HTTP: blobs, the wheel store, its indexes, the report."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from aiohttp import web
from envhub.protocol.base import BlobRef, ErrorBody
from envhub.protocol.blobs import BlobsReply, BlobsRequest
from envhub.protocol.registry.builds import BuildPayload, BuildReport, LockedWheel, SourcePacked
from envhub.protocol.registry.packages import GenerationEvidence
from envhub.protocol.registry.wheels import SourceBuiltWheel, WheelLookup, WheelLookupReply, WheelPut
from envhub.protocol.runs import Claim, HeartbeatReply, LogAppended, RunKind
from pydantic import BaseModel

from tests.factories.packages import tar_bytes
from tests.workers.package_index import PackageIndex

Body = TypeVar("Body", bound=BaseModel)
TOKEN = "hubr_test-run-token"
VERSION = {
    "id": "v",
    "owner": "alice",
    "name": "x",
    "version": "1.0",
    "state": "building",
    "wheel_filename": "x-1.0-py3-none-any.whl",
    "wheel_sha256": "0" * 64,
    "sdist_sha256": "0" * 64,
    "size": 1,
    "created_at": "2026-01-01T00:00:00Z",
    "created_by": "alice",
}
RUN = {
    "id": "r",
    "kind": "build",
    "state": "running",
    "owner": "alice",
    "created_by": "alice",
    "subject": "alice/x",
    "subject_url": "/alice/x",
    "queue": "cpu",
    "attempt": 1,
    "created_at": "2026-01-01T00:00:00Z",
}


@dataclass
class FakeHub:
    """Keeps everything in memory; `reports` and `log` are what a build said."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    source_built: dict[str, LockedWheel] = field(default_factory=dict)
    owner_index: PackageIndex = field(default_factory=lambda: PackageIndex(password=TOKEN))
    kept_index: PackageIndex = field(default_factory=lambda: PackageIndex(password=TOKEN, files_at="/index/-/files"))
    reports: list[BuildReport] = field(default_factory=list)
    packed: list[SourcePacked] = field(default_factory=list)
    refusal: ErrorBody | None = None  # of what is packed
    log: str = ""
    uploads: int = 0
    url: str = ""

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Its URL while it listens."""
        app = web.Application(client_max_size=2**31)
        run = "/api/v1/runs/r"
        app.router.add_post(f"{run}/start", self._run)
        app.router.add_post(f"{run}/finish", self._run)
        app.router.add_post(f"{run}/heartbeat", self._beat)
        app.router.add_post(f"{run}/log", self._log)
        app.router.add_post(f"{run}/build-report", self._report)
        app.router.add_post(f"{run}/packed", self._packed)
        app.router.add_post("/api/v1/blobs", self._missing)
        app.router.add_put("/blobs/{sha256}", self._put)
        app.router.add_get("/blobs/{sha256}", self._get)
        app.router.add_post("/api/v1/wheels/lookup", self._lookup)
        app.router.add_post("/api/v1/wheels", self._wheel)
        app.router.add_get("/index/-/simple/{project}/", self.kept_index._project)
        app.router.add_get("/index/-/files/{project}/{filename}", self.kept_index._file)
        app.router.add_get("/index/{owner}/simple/{project}/", self.owner_index._project)
        app.router.add_get("/files/{project}/{filename}", self.owner_index._file)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self.url
        finally:
            await runner.cleanup()

    def keep(self, path: Path) -> BlobRef:
        """Have the bytes of a file."""
        content = path.read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        self.blobs[sha256] = content
        return BlobRef(sha256=sha256, size=len(content), url=f"/blobs/{sha256}")

    def claim(self, wheel: Path, evidence: GenerationEvidence, pyproject: str = "", **more: object) -> Claim:
        """A claim on the build of a package that has just been pushed, with this pyproject.toml in its sdist."""
        ref = self.keep(wheel)
        name, version = wheel.name.split("-")[:2]
        sdist = tar_bytes({f"{name}-{version}/pyproject.toml": pyproject or "[project]\n"})
        self.blobs[sdist_sha256 := hashlib.sha256(sdist).hexdigest()] = sdist
        payload = BuildPayload(
            version_id="v",
            owner="alice",
            name=name.replace("_", "-"),
            version=version,
            module=name,
            requires_python=">=3.11",
            wheel=ref,
            wheel_filename=wheel.name,
            sdist=BlobRef(sha256=sdist_sha256, size=len(sdist), url=f"/blobs/{sdist_sha256}"),
            evidence=evidence,
            dependencies=(),
            owner_index_url=f"{self.url}/index/alice/simple/",
            has_readme=True,
        ).model_copy(update=more)
        return Claim(
            run_id="r",
            kind=RunKind.BUILD,
            attempt=1,
            token=TOKEN,
            lease_seconds=30,
            owner="alice",
            payload=payload.model_dump(mode="json"),
        )

    async def _run(self, _: web.Request) -> web.Response:
        return web.json_response(RUN)

    async def _beat(self, _: web.Request) -> web.Response:
        return answer(HeartbeatReply(cancel=False, lease_seconds=30))

    async def _log(self, request: web.Request) -> web.Response:
        self.log += (await request.json())["text"]
        return answer(LogAppended(next_offset=len(self.log)))

    async def _report(self, request: web.Request) -> web.Response:
        self.reports.append(await parsed(request, BuildReport))
        return web.json_response(VERSION)

    async def _packed(self, request: web.Request) -> web.Response:
        self.packed.append(await parsed(request, SourcePacked))
        if self.refusal is None:
            return web.json_response(VERSION)
        return web.json_response(self.refusal.model_dump(), status=409)

    async def _missing(self, request: web.Request) -> web.Response:
        wanted = await parsed(request, BlobsRequest)
        missing = [need.sha256 for need in wanted.blobs if need.sha256 not in self.blobs]
        reply = {"missing": [{"sha256": sha256, "url": f"/blobs/{sha256}"} for sha256 in missing]}
        return answer(BlobsReply.model_validate(reply))

    async def _put(self, request: web.Request) -> web.Response:
        self.blobs[request.match_info["sha256"]] = await request.read()
        self.uploads += 1
        return web.Response()

    async def _get(self, request: web.Request) -> web.Response:
        return web.Response(body=self.blobs[request.match_info["sha256"]])

    async def _lookup(self, request: web.Request) -> web.Response:
        keys = (await parsed(request, WheelLookup)).keys
        found = tuple(
            SourceBuiltWheel(key=key, wheel=self.source_built[key]) for key in keys if key in self.source_built
        )
        return answer(WheelLookupReply(found=found))

    async def _wheel(self, request: web.Request) -> web.Response:
        put = await parsed(request, WheelPut)
        wheel = LockedWheel(
            name=put.name,
            version=put.version,
            filename=put.filename,
            sha256=put.sha256,
            size=put.size,
            built_from_source=True,
            url=f"/blobs/{put.sha256}",
        )
        return answer(SourceBuiltWheel(key=put.key, wheel=self.source_built.setdefault(put.key, wheel)))


async def parsed(request: web.Request, kind: type[Body]) -> Body:
    """The body as the hub would read it."""
    return kind.model_validate_json(await request.read())


def answer(model: BaseModel) -> web.Response:
    """A model as JSON."""
    return web.Response(text=model.model_dump_json(), content_type="application/json")
