"""A serve run ends when its engine does, also when that only falls silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientConnectorError, ClientSession, ClientTimeout, web
from envhub.protocol.models.catalog import LocalTarget
from envhub.protocol.models.inference import ServeAddress, ServePayload
from envhub.protocol.runs import FinishRequest, RunState

from workers.inference import serving
from workers.inference.address import EngineAddress
from workers.inference.guard import guard
from workers.inference.serving import Proxy
from workers.runs import execution
from workers.runs.errors import RunFailed

JOB: Any = SimpleNamespace(lease=SimpleNamespace(log=lambda text: None))


@pytest.fixture
async def frozen() -> AsyncIterator[EngineAddress]:
    """An engine that takes calls and answers none."""

    async def never(request: web.Request) -> web.Response:
        await asyncio.sleep(3600)
        return web.Response()

    app = web.Application()
    app.router.add_get("/health", never)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield EngineAddress(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", "key")
    await runner.cleanup()


async def watch(engine: EngineAddress, idle_seconds: float) -> None:
    """As `_serve` does."""
    async with ClientSession(timeout=ClientTimeout(total=None, sock_connect=10)) as http, asyncio.timeout(5):
        await serving._until_idle(JOB, Proxy(engine, "", http), idle_seconds, http, engine)


async def test_an_engine_that_falls_silent_is_given_up(frozen: EngineAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("CHECK_SECONDS", 0.01), ("HEALTH_SECONDS", 0.05), ("SILENT_SECONDS", 0.2)):
        monkeypatch.setattr(serving, name, seconds, raising=False)
    with pytest.raises(RunFailed, match="has not answered"):
        await watch(frozen, idle_seconds=60)


async def test_one_that_nobody_calls_is_idle_whatever_its_engine_does(
    frozen: EngineAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CHECK_SECONDS", "HEALTH_SECONDS"):
        monkeypatch.setattr(serving, name, 0.01, raising=False)
    await watch(frozen, idle_seconds=0.1)


@pytest.fixture
async def slow() -> AsyncIterator[EngineAddress]:
    """An engine whose answers take a second; it asks for its key."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in (b"first ", b"last"):
            await response.write(piece)
            await asyncio.sleep(0.5)
        return response

    async def health(request: web.Request) -> web.Response:
        return web.Response()

    app = web.Application(middlewares=[guard("key")])
    app.add_routes([web.get("/health", health), web.post("/v1/completions", answer)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield EngineAddress(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", "key")
    await runner.cleanup()


async def test_answers_that_are_under_way_when_the_deployment_ends_arrive_whole(
    slow: EngineAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(execution, "CLEANUP_S", 0.1)
    addresses: asyncio.Queue[ServeAddress] = asyncio.Queue()

    async def post(path: str, body: ServeAddress, reply: object) -> None:
        addresses.put_nowait(body)

    async def start() -> None:
        """The hub knows that it has begun."""

    said: list[str] = []
    job: Any = SimpleNamespace(
        lease=SimpleNamespace(log=said.append, cancelled=asyncio.Event(), lost=asyncio.Event(), farewell_s=0.0),
        settings=SimpleNamespace(serve_host="127.0.0.1", serve_address="", run_limit_s=60.0),
        run=SimpleNamespace(run_id="r", post=post, start=start),
    )
    local = LocalTarget(fingerprint="f", engine="torch", files={}, urls={})
    payload = ServePayload(model="a/m", target=local, idle_seconds=60)
    body = partial(serving._serve, payload=payload, engine=slow)
    ended = asyncio.create_task(execution.outcome_of(job, body, asyncio.Event()))
    served = await addresses.get()
    headers = {"Authorization": f"Bearer {served.secret}"}
    async with (
        ClientSession(timeout=ClientTimeout(total=10)) as http,
        http.post(f"{served.base_url}/completions", headers=headers) as answer,
    ):
        assert await answer.content.readexactly(6) == b"first "
        job.lease.cancelled.set()
        assert await answer.read() == b"last"
    async with ClientSession() as newcomer:
        with pytest.raises(ClientConnectorError):
            await newcomer.post(f"{served.base_url}/completions")
    assert await ended == FinishRequest(state=RunState.CANCELLED)
    assert "those under way have 300 s" in said[-1]


@pytest.mark.parametrize("header", ["", "Bearer x", "Bearer key", "Bearer \xe9"])
async def test_a_served_model_answers_nobody_without_its_secret(slow: EngineAddress, header: str) -> None:
    async with ClientSession() as http:
        runner = web.AppRunner(Proxy(slow, "secret", http).application())
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/completions"
        async with http.post(url, headers={"Authorization": header}) as answer:
            assert answer.status == 401
        await runner.cleanup()


async def test_an_engine_that_has_ended_is_named() -> None:
    with pytest.raises(RunFailed, match="ended while it served"):
        await watch(EngineAddress("http://127.0.0.1:9/v1", "key"), idle_seconds=60)
