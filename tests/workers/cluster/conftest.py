"""Settings of a small node, and a hub that knows clusters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from envhub.protocol.placing.clusters import ClusterHead, ClusterHeads

from workers.settings import WorkerEnvironment


@pytest.fixture
def settings(tmp_path: Path) -> WorkerEnvironment:
    return small(tmp_path / "worker")


def small(data: Path, **changes: Any) -> WorkerEnvironment:
    """A node that takes as little of this machine as Ray allows."""
    return WorkerEnvironment(data=data, ray_objects_mb=100, ray_host="127.0.0.1", **changes)


class FakeHub:
    """Answers the one call of a host that joins."""

    def __init__(self) -> None:
        self.heads: tuple[ClusterHead, ...] = ()
        self.asked: list[str] = []  # the tokens that came
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.headers["Authorization"])
        body = ClusterHeads(heads=self.heads).model_dump_json()
        return web.Response(text=body, content_type="application/json")


@pytest.fixture
async def hub() -> AsyncIterator[FakeHub]:
    fake = FakeHub()
    app = web.Application()
    app.router.add_get("/api/v1/workers/clusters", fake.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield fake
    await runner.cleanup()
