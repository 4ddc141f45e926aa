"""A serve run ends when its engine does, also when that only falls silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientSession, ClientTimeout, web

from workers.inference import serving
from workers.inference.serving import Proxy
from workers.runs.errors import RunFailed

JOB: Any = SimpleNamespace(lease=SimpleNamespace(log=lambda text: None))


@pytest.fixture
async def frozen() -> AsyncIterator[str]:
    """An engine that takes calls and answers none."""

    async def never(request: web.Request) -> web.Response:
        await asyncio.sleep(3600)
        return web.Response()

    app = web.Application()
    app.router.add_get("/health", never)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    await runner.cleanup()


async def watch(base_url: str, idle_seconds: float) -> None:
    """As `_serve` does."""
    async with ClientSession(timeout=ClientTimeout(total=None, sock_connect=10)) as http, asyncio.timeout(5):
        await serving._until_idle(JOB, Proxy(base_url, "", http), idle_seconds, http, base_url)


async def test_an_engine_that_falls_silent_is_given_up(frozen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("CHECK_SECONDS", 0.01), ("HEALTH_SECONDS", 0.05), ("SILENT_SECONDS", 0.2)):
        monkeypatch.setattr(serving, name, seconds, raising=False)
    with pytest.raises(RunFailed, match="has not answered"):
        await watch(frozen, idle_seconds=60)


async def test_one_that_nobody_calls_is_idle_whatever_its_engine_does(
    frozen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CHECK_SECONDS", "HEALTH_SECONDS"):
        monkeypatch.setattr(serving, name, 0.01, raising=False)
    await watch(frozen, idle_seconds=0.1)


async def test_an_engine_that_has_ended_is_named() -> None:
    with pytest.raises(RunFailed, match="ended while it served"):
        await watch("http://127.0.0.1:9/v1", idle_seconds=60)
