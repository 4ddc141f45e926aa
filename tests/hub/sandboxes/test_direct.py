"""Calls of the inside of a sandbox are passed on to its worker for those who may, and for nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from envhub.protocol.accounts.users import Scope

from hub.sandboxes.direct import DirectSandboxes
from hub.sandboxes.models import Sandbox
from tests.factories.accounts import make_owner, make_token, make_user
from tests.factories.sandboxes import create_pending
from tests.hub.sandboxes.conftest import EchoWorker, no_django, token_of

pytestmark = pytest.mark.django_db(transaction=True)


def path(sandbox: Sandbox, rest: str) -> str:
    return f"/api/v1/sandboxes/{sandbox.pk}{rest}"


async def test_a_call_arrives_with_its_query_and_the_workers_secret_only(
    hub: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    headers = await token_of(sandbox) | {"Cookie": "sessionid=1"}
    answer = await hub.get(path(sandbox, "/files?path=/tmp/a%20b%26c"), headers=headers)
    assert answer.json()["path"] == "/files?path=/tmp/a%20b%26c"
    assert "Cookie" not in answer.json()["headers"]
    assert "set-cookie" not in answer.headers
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == "attachment"


async def test_strangers_readers_and_narrow_tokens_are_refused(hub: httpx.AsyncClient, sandbox: Sandbox) -> None:
    stranger = await sync_to_async(lambda: make_token(make_user()))()
    call = path(sandbox, "/exec")
    for headers, status in (
        ({"Authorization": f"Bearer {stranger}"}, 404),
        ({"Authorization": "Bearer hub_wrong"}, 401),
        (await token_of(sandbox, Scope.READ), 403),
    ):
        answer = await hub.post(call, headers=headers, json={"command": "true"})
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")


async def test_one_that_waits_and_one_whose_worker_is_gone_say_so(hub: httpx.AsyncClient, sandbox: Sandbox) -> None:
    headers = await token_of(sandbox)
    await sync_to_async(Sandbox.objects.filter(pk=sandbox.pk).update)(base_url="http://127.0.0.1:9")
    answer = await hub.get(path(sandbox, "/stats"), headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "sandbox_unreachable")
    pending = await sync_to_async(lambda: create_pending(sandbox.created_by))()
    answer = await hub.get(path(pending, "/stats"), headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "sandbox_pending")


async def test_an_upload_is_streamed_and_ends_at_its_limit(
    hub: httpx.AsyncClient, sandbox: Sandbox, worker: EchoWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update={"sandbox_file_mb": 1}))
    headers = await token_of(sandbox)

    async def pieces(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield bytes(100_000)

    call = path(sandbox, "/files?path=/a")
    assert (await hub.put(call, headers=headers, content=pieces(10))).json()["received"] == 1_000_000
    answer = await hub.put(call, headers=headers, content=pieces(11))
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


async def test_a_reader_that_disconnects_ends_the_stream_at_the_worker(sandbox: Sandbox, worker: EchoWorker) -> None:
    token = (await token_of(sandbox))["Authorization"].encode()
    gone, some = asyncio.Event(), asyncio.Event()
    asked: list[dict[str, object]] = [{"type": "http.request", "body": b""}]

    async def receive() -> dict[str, object]:
        if asked:
            return asked.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: object) -> None:
        if "ping" in str(message):
            some.set()

    scope = {
        "type": "http", "method": "GET", "path": path(sandbox, "/processes/1/output"), "query_string": b"",
        "headers": [(b"authorization", token)],
    }  # fmt: skip
    call = asyncio.create_task(DirectSandboxes(no_django)(scope, receive, send))
    async with asyncio.timeout(10):
        await some.wait()
        gone.set()
        await call
        while worker.streams:
            await asyncio.sleep(0.01)


async def test_a_team_shares_its_sandboxes_and_its_readers_only_look(hub: httpx.AsyncClient, sandbox: Sandbox) -> None:
    def share() -> dict[str, str]:
        team = make_owner("team")
        Sandbox.objects.filter(pk=sandbox.pk).update(owner=team)
        reader = make_user("reader")
        team.memberships.create(user=reader, role="reader")
        return {"Authorization": f"Bearer {make_token(reader)}"}

    headers = await sync_to_async(share)()
    assert (await hub.get(path(sandbox, "/commands"), headers=headers)).status_code == 200
    assert (await hub.post(path(sandbox, "/exec"), headers=headers, json={})).status_code == 403
