"""A worker joins, whatever it meets at first."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from envhub.protocol.runs import JoinRequest

from tests.fakes.hub import FakeHub
from workers.runs.hub import HubClient
from workers.settings import WorkerEnvironment
from workers.tasks import joining
from workers.tasks.joining import announce, join


@pytest.fixture
def announcement() -> JoinRequest:
    return announce(WorkerEnvironment(token="hubw_good"), {"eval": 1}, ("eval", "serve"), ())


@pytest.mark.parametrize(("patience", "warned"), [(60.0, False), (0.0, True)])
async def test_a_hub_that_only_starts_is_waited_for_without_a_warning(
    announcement: JoinRequest,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    patience: float,
    warned: bool,
) -> None:
    monkeypatch.setattr(joining, "HUB_STARTS_S", patience)
    async with HubClient("http://127.0.0.1:9", "hubw_good", patience_s=0) as hub:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await join(hub, announcement)
    assert ("cannot join" in caplog.text) == warned


async def test_a_page_of_a_proxy_in_the_hubs_place_is_waited_out(
    announcement: JoinRequest, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeHub(covered=True) as server, HubClient(server.url, "hubw_good", patience_s=0) as hub:
        waiting = asyncio.create_task(join(hub, announcement))
        while "is not from a hub" not in caplog.text:
            assert not waiting.done()
            await asyncio.sleep(0.02)
        server.covered = False
        await waiting


async def test_an_address_that_redirects_is_named(announcement: JoinRequest, caplog: pytest.LogCaptureFixture) -> None:
    async def redirect(request: web.Request) -> web.Response:
        raise web.HTTPPermanentRedirect(f"https://hub.test{request.path}")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", redirect)
    async with TestServer(app) as server, HubClient(str(server.make_url("")), "hubw_good", patience_s=0) as hub:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await join(hub, announcement)
    assert "the hub's address redirects to https://hub.test. Set WORKER_HUB_URL" in caplog.text
