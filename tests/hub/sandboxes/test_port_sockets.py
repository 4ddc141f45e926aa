"""Web sockets to ports of sandboxes, under a real server: what passes, who is refused, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
import uvicorn
from asgiref.sync import sync_to_async

from hub.sandboxes import direct
from hub.sandboxes.addresses import clients_origin
from hub.sandboxes.direct import DirectSandboxes
from hub.sandboxes.models import Sandbox, SandboxPort
from tests.factories.accounts import make_user
from tests.factories.sandboxes import create_running
from tests.hub.sandboxes.conftest import EchoWorker, no_django
from tests.hub.sandboxes.test_ports import address

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def served() -> AsyncIterator[str]:
    """The address of the hub's part that answers for sandboxes, under uvicorn."""
    config = uvicorn.Config(DirectSandboxes(no_django), port=0, lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(30):
        while not server.started:
            await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    await serving


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.01)


async def test_messages_pass_both_ways_and_nothing_tells_who_sends_them(
    served: str, sandbox: Sandbox, http: aiohttp.ClientSession
) -> None:
    sent = {"Cookie": "sessionid=1", "Authorization": "Bearer hub_x", "Origin": "null", "X-Custom": "kept"}
    url = f"{served}{await address(sandbox)}socket?a=b%20c"
    async with http.ws_connect(url, headers=sent, protocols=("other", "chat")) as socket:
        seen = await socket.receive_json(timeout=10)
        headers = {name.lower(): value for name, value in seen["headers"].items()}
        assert (seen["path"], socket.protocol) == ("/ports/8080/socket?a=b%20c", "chat")
        assert not {"cookie", "origin"} & headers.keys()
        assert (headers["x-custom"], headers["host"]) == ("kept", "localhost:8080")
        assert "hub_x" not in str(seen)
        await socket.send_str("é")
        assert await socket.receive_str(timeout=10) == "é"
        await socket.send_bytes(bytes(200_000))
        assert await socket.receive_bytes(timeout=10) == bytes(200_000)


async def test_the_program_ends_it_with_its_own_reason(
    served: str, sandbox: Sandbox, http: aiohttp.ClientSession
) -> None:
    async with http.ws_connect(f"{served}{await address(sandbox)}socket") as socket:
        await socket.receive_json(timeout=10)
        await socket.send_str("bye")
        end = await socket.receive(timeout=30)
        assert (end.type, end.data, end.extra) == (aiohttp.WSMsgType.CLOSE, 4001, "as you wish")


async def test_a_caller_who_leaves_ends_it_at_the_worker(
    served: str, sandbox: Sandbox, worker: EchoWorker, http: aiohttp.ClientSession
) -> None:
    async with http.ws_connect(f"{served}{await address(sandbox)}socket") as socket:
        await socket.receive_json(timeout=10)
        assert worker.sockets == 1
        await socket.close(code=4002)
    await until(lambda: not worker.sockets)
    assert worker.closed_with == 4002


async def test_it_ends_with_its_address(served: str, sandbox: Sandbox, http: aiohttp.ClientSession) -> None:
    async with http.ws_connect(f"{served}{await address(sandbox, 3.0)}socket") as socket:
        await socket.receive_json(timeout=10)
        end = await socket.receive(timeout=30)
        assert (end.type, end.extra) == (aiohttp.WSMsgType.CLOSE, "the address has expired, or was closed")


async def test_it_ends_when_its_address_is_closed(
    served: str, sandbox: Sandbox, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "CLOSED_LOOK_S", 0.05)
    async with http.ws_connect(f"{served}{await address(sandbox)}socket") as socket:
        await socket.receive_json(timeout=10)
        await SandboxPort.objects.all().adelete()
        assert (await socket.receive(timeout=30)).type is aiohttp.WSMsgType.CLOSE


async def test_an_answer_breaks_off_when_its_address_is_closed(
    served: str, sandbox: Sandbox, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "CLOSED_LOOK_S", 0.05)
    async with http.get(f"{served}{await address(sandbox)}output") as answer:
        await answer.content.readany()
        await SandboxPort.objects.all().adelete()
        with pytest.raises(aiohttp.ClientError):
            await answer.read()


async def test_what_prime_sandboxes_finds_has_web_sockets_too(
    served: str, worker: EchoWorker, http: aiohttp.ClientSession
) -> None:
    keeper = await sync_to_async(lambda: create_running(make_user("bob"), base_url=worker.url, siblings=2))()  # type: ignore[attr-defined]
    origin = clients_origin(keeper, 60).partition("/sandbox-clients")[2]
    url = f"{served}/sandbox-clients{origin}/prime/ports/s/8080/socket?a=b"
    async with http.ws_connect(url, headers={"Cookie": "sessionid=1"}) as socket:
        seen = await socket.receive_json(timeout=10)
        assert seen["path"] == "/prime/ports/s/8080/socket?a=b"
        assert "cookie" not in {name.lower() for name in seen["headers"]}
    for refused, status in ((url.replace("/prime/", "/"), 404), (url.replace(origin, "/x"), 404)):
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await http.ws_connect(refused)
        assert caught.value.status == status


REFUSED = {
    "a page of the hub": ("{address}socket", {"Origin": "{served}"}, 403),
    "a part of a page": ("{address}socket", {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "empty"}, 403),
    "a forged address": ("/sandbox-ports/x/socket", {}, 404),
    "a program without them": ("{address}plain", {}, 502),
    "another place": ("/runs/", {}, 404),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_others_are_refused_with_a_status(
    served: str, sandbox: Sandbox, http: aiohttp.ClientSession, name: str
) -> None:
    path, headers, status = REFUSED[name]
    known = {"address": await address(sandbox), "served": served}
    sent = {key: value.format(**known) for key, value in headers.items()}
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await http.ws_connect(served + path.format(**known), headers=sent)
    assert caught.value.status == status
