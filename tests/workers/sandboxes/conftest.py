"""A sandbox run beside a hub that only listens."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import WeakValueDictionary

import pytest
from aiohttp import ClientSession, web
from envhub.protocol.sandboxes.sandboxes import SandboxPayload, SandboxReport

from tests.fakes.host_image import sandboxes_on_the_host
from tests.serving import listening
from workers.sandboxes import run as run_module
from workers.sandboxes import session
from workers.sandboxes.run import run_sandbox
from workers.settings import WorkerEnvironment


@dataclass
class Running:
    """A sandbox's run: its reports, its log, and a client with the secret."""

    task: asyncio.Task[None]
    http: ClientSession
    report: SandboxReport
    reports: asyncio.Queue[SandboxReport]
    said: list[str]
    lease: SimpleNamespace

    async def exec(self, command: str, **fields: Any) -> dict[str, Any]:
        answer = await self.http.post("/exec", json={"command": command, **fields})
        found: dict[str, Any] = await answer.json()
        return found


Start = Callable[..., AbstractAsyncContextManager[Running]]


def fake_job(root: Path, hub: str, reports: asyncio.Queue[SandboxReport], said: list[str], **wanted: Any) -> Any:
    """What run_sandbox needs of a job."""

    async def post(path: str, body: SandboxReport, reply: object) -> None:
        reports.put_nowait(body)

    payload = SandboxPayload(**{"sandbox_id": "s", "image": "hub/base", "timeout_s": 60.0, **wanted})
    settings = WorkerEnvironment(data=root, token="hubw_x")
    return SimpleNamespace(
        claim=SimpleNamespace(payload=payload.model_dump(mode="json"), owner="alice", run_id="r"),
        lease=SimpleNamespace(log=said.append, mask=lambda *secrets: None, masked=str, progress=lambda *amounts: None),
        run=SimpleNamespace(
            run_id="r", post=post, absolute=lambda path: f"{hub}{path}", authorization=lambda: {"Authorization": "run"}
        ),
        settings=settings,
    )


@pytest.fixture(scope="session")
def root() -> Iterator[Path]:
    """Short, because unix sockets lie below it; one for all, because the first box on an image takes a second."""
    with tempfile.TemporaryDirectory(prefix="sb-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture
async def hub() -> AsyncIterator[str]:
    """Keeps one file of the outside for whoever brings the run's token, and answers calls of models."""

    async def file(request: web.Request) -> web.Response:
        known = request.query["url"] == "https://files.example.org/words.txt"
        if not known or request.headers["Authorization"] != "run":
            raise web.HTTPNotFound(headers={"X-Error-Message": "the hub keeps no such file"})
        return web.Response(text="kept words")

    async def call(request: web.Request) -> web.Response:
        asked = await request.json()
        return web.json_response({"model": asked["model"], "token": request.headers["Authorization"]})

    app = web.Application()
    app.router.add_get("/outside", file)
    app.router.add_post("/inference/v1/chat/completions", call)
    async with listening(app) as url:
        yield url


@pytest.fixture
def start(root: Path, hub: str, monkeypatch: pytest.MonkeyPatch) -> Start:
    monkeypatch.setattr(session, "run_sandboxes", sandboxes_on_the_host)
    monkeypatch.setattr(run_module, "_memories", WeakValueDictionary())  # each test has an event loop of its own

    @asynccontextmanager
    async def opened(**wanted: Any) -> AsyncIterator[Running]:
        reports: asyncio.Queue[SandboxReport] = asyncio.Queue()
        said: list[str] = []
        job = fake_job(root, hub, reports, said, **wanted)
        task = asyncio.create_task(run_sandbox(job))
        getting = asyncio.ensure_future(reports.get())
        await asyncio.wait([task, getting], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            getting.cancel()
            task.result()
        report = await getting
        headers = {"Authorization": f"Bearer {report.secret}"}
        async with ClientSession(report.base_url, headers=headers) as http:
            yield Running(task, http, report, reports, said, job.lease)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    return opened


@pytest.fixture
async def running(start: Start) -> AsyncIterator[Running]:
    async with start() as found:
        yield found
