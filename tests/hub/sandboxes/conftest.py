"""A worker that only says what it was asked, and the hub in front of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from aiohttp import WSMsgType, web
from asgiref.sync import sync_to_async
from django.db import connections
from envhub.protocol.accounts.users import Scope

from hub.sandboxes.direct import DirectSandboxes
from hub.sandboxes.models import Sandbox
from tests.factories.accounts import make_token, make_user
from tests.factories.sandboxes import SECRET, create_running

HOSTILE = {
    "Set-Cookie": "sessionid=stolen",
    "Clear-Site-Data": '"*"',
    "Alt-Svc": 'h2="evil.example:443"',
    "X-Accel-Redirect": "/etc/passwd",
    "WWW-Authenticate": "Basic",
    "Content-Security-Policy": "default-src *",
    "Service-Worker-Allowed": "/",
    "Content-Type": "text/html",
}


class EchoWorker:
    """Answers each call with what it saw; `/processes/1/output` never ends."""

    def __init__(self) -> None:
        self.streams = 0
        self.sockets = 0
        self.closed_with: int | None = None
        self.received = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {SECRET}":
            return web.Response(status=401)
        if request.path.endswith("/output"):
            return await self._endless(request)
        if request.headers.get("Upgrade") == "websocket" and "/socket" in request.path:
            return await self._socket(request)
        if "moved" in request.path:
            return web.Response(status=302, headers={"Location": "/login?x=1"})
        async for piece in request.content.iter_any():
            self.received += len(piece)
        seen = {"path": request.raw_path, "headers": dict(request.headers), "received": self.received}
        return web.Response(text=json.dumps(seen), headers=HOSTILE)

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        """Says what it saw, then what it hears; at "bye" it leaves."""
        socket = web.WebSocketResponse(protocols=("chat",))
        await socket.prepare(request)
        self.sockets += 1
        try:
            await socket.send_json({"path": request.raw_path, "headers": dict(request.headers)})
            async for message in socket:
                if message.data == "bye":
                    await socket.close(code=4001, message=b"as you wish")
                elif message.type is WSMsgType.TEXT:
                    await socket.send_str(message.data)
                else:
                    await socket.send_bytes(message.data)
            self.closed_with = socket.close_code
            return socket
        finally:
            self.sockets -= 1

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        self.streams += 1
        try:
            while True:
                await response.write(b'{"kind":"ping"}\n')
                await asyncio.sleep(0.02)
        finally:
            self.streams -= 1


async def no_django(*_: Any) -> None:
    raise AssertionError("this call is passed on")


@pytest.fixture
async def worker() -> AsyncIterator[EchoWorker]:
    echo = EchoWorker()
    app = web.Application(client_max_size=1024**3)
    app.router.add_route("*", "/{path:.*}", echo.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    echo.url = f"http://127.0.0.1:{runner.addresses[0][1]}"  # type: ignore[attr-defined]
    yield echo
    await runner.cleanup()


@pytest.fixture
async def sandbox(worker: EchoWorker) -> Sandbox:
    return await sync_to_async(lambda: create_running(make_user("alice"), base_url=worker.url))()  # type: ignore[attr-defined]


@pytest.fixture
async def hub() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=DirectSandboxes(no_django))  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://hub") as client:
        yield client


async def token_of(sandbox: Sandbox, *scopes: Scope) -> dict[str, str]:
    secret = await sync_to_async(lambda: make_token(Sandbox.objects.get(pk=sandbox.pk).created_by, *scopes))()
    return {"Authorization": f"Bearer {secret}"}


@pytest.fixture(autouse=True)
async def _no_connection_is_left(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    yield
    if any(word in str(request.path) for word in ("direct", "port")):
        await sync_to_async(connections.close_all)()
