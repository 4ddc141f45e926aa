"""The gateway as it runs in front of Django: disconnects, waiting callers, what is kept and for how long."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from envhub.protocol.accounts.users import Scope

from hub.accounts.models import User
from hub.accounts.services import disable_user
from hub.core import database_threads
from hub.core.requests.body_limit import Message
from hub.inference import bodies, gateway, lookup
from hub.inference.direct import DirectGateway
from hub.inference.services import ensure_deployment
from hub.runs.models import Run
from tests.factories.accounts import make_token, make_user
from tests.factories.catalog import create_endpoint
from tests.factories.training_runs import create_trainable
from tests.fakes.token_stream import TokenStream

pytestmark = pytest.mark.django_db(transaction=True)
CHAT = "/inference/v1/chat/completions"


class Call:
    """One request to the ASGI application, which can hang up."""

    def __init__(self, token: str, content: bytes) -> None:
        self.sent: list[Message] = []
        self._gone = asyncio.Event()
        self._body: Message | None = {"type": "http.request", "body": content, "more_body": False}
        headers = [(b"authorization", f"Bearer {token}".encode())]
        scope = {"type": "http", "method": "POST", "path": CHAT, "headers": headers}
        self.task = asyncio.create_task(DirectGateway(no_django)(scope, self._receive, self._send))

    def hang_up(self) -> None:
        self._gone.set()

    @property
    def is_read(self) -> bool:
        return self._body is None

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    async def _receive(self) -> Message:
        if self._body is not None:
            message, self._body = self._body, None
            return message
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self.sent.append(message)


async def no_django(*_: Any) -> None:
    raise AssertionError("this call is the gateway's")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


def content(**fields: Any) -> bytes:
    return json.dumps({"model": "alice/stub", "messages": [], "stream": True, **fields}).encode()


@pytest.fixture
async def engine() -> AsyncIterator[TokenStream]:
    async with TokenStream(chunks=1000, pause_s=3600) as stub:
        yield stub


@sync_to_async
def token_for(engine: TokenStream) -> str:
    user = make_user("alice")
    create_endpoint(user, base_url=engine.base_url)
    return make_token(user)


@sync_to_async
def token_for_starting_model() -> str:
    user = make_user("alice")
    ensure_deployment(model=create_trainable(user.owner, "stub"), user=user)
    return make_token(user)


async def test_a_caller_that_disconnects_frees_its_slot_in_the_engine(engine: TokenStream) -> None:
    call = Call(await token_for(engine), content())
    await until(lambda: b"token" in call.body)
    assert engine.open == 1
    call.hang_up()
    await call.task
    await until(lambda: engine.open == 0)


@sync_to_async
def token_without_the_scope() -> str:
    return make_token(make_user("alice"), Scope.READ)


async def test_nothing_is_read_of_a_body_whose_sender_may_not_call() -> None:
    for token, status in (("", 401), ("hub_unknown", 401), (await token_without_the_scope(), 403)):
        call = Call(token, b"[" * 1000)
        await call.task
        assert (call.sent[0]["status"], call.is_read) == (status, False)


async def test_a_known_caller_is_admitted_without_a_question_to_the_database(
    engine: TokenStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    authorization, known = f"Bearer {await token_for(engine)}", lookup.Lookup()
    await known.admit(authorization)
    monkeypatch.setattr(lookup, "in_database", None)
    await known.admit(authorization)


async def test_a_body_of_too_many_values_is_refused_before_it_is_parsed(engine: TokenStream) -> None:
    broken = content(prompt=[0] * bodies.MOST_VALUES)[:-1]  # which parsing would say
    call = Call(await token_for(engine), broken)
    await call.task
    assert (call.sent[0]["status"], json.loads(call.body)["error"]["code"]) == (422, "too_many_values")


async def test_a_large_body_of_few_values_is_none_of_these() -> None:
    body = {"model": "alice/stub", "prompt": [0] * (bodies.MOST_VALUES // 2), "image": "x" * 2**21}
    assert await bodies.read_body(json.dumps(body).encode()) == body


@sync_to_async
def shut_out() -> None:
    disable_user(user=User.objects.get(username="alice"), by=make_user(is_superuser=True))


async def test_a_disabled_users_calls_stop_although_their_route_is_known(engine: TokenStream) -> None:
    token = await token_for(engine)
    first = Call(token, content())
    await until(lambda: b"token" in first.body)
    await shut_out()
    second = Call(token, content())
    await second.task
    assert second.sent[0]["status"] == 401
    first.hang_up()
    await first.task


async def test_callers_of_a_model_that_starts_hold_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "POLL_SECONDS", 60.0)
    token = await token_for_starting_model()
    calls = [Call(token, content()) for _ in range(3 * database_threads.THREADS)]
    routes = gateway.lookup_of(asyncio.get_running_loop())
    await until(lambda: routes.waiting == len(calls))
    assert await database_threads.in_database(Run.objects.count) == 1
    for call in calls:
        call.hang_up()
    await asyncio.gather(*(call.task for call in calls))
    assert routes.waiting == 0


async def test_more_waiting_callers_than_the_bound_are_told_when_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "MOST_WAITING", 1)
    token = await token_for_starting_model()
    first = Call(token, content())
    routes = gateway.lookup_of(asyncio.get_running_loop())
    await until(lambda: routes.waiting == 1)
    second = Call(token, content())
    await second.task
    assert second.sent[0]["status"] == 503
    assert (b"retry-after", b"10") in second.sent[0]["headers"]
    assert json.loads(second.body)["error"]["code"] == "too_many_waiting"
    first.hang_up()
    await first.task


@pytest.mark.parametrize(
    "body", [b'{"model":' + b"[" * 200_000, b'{"model":"alice/stub","x":' + b"[" * 900 + b"]" * 900 + b"}", b"NaN"]
)
async def test_odd_json_is_refused_or_passed_on_but_no_failure_of_the_hub(engine: TokenStream, body: bytes) -> None:
    call = Call(await token_for(engine), body)
    await until(lambda: bool(call.sent))
    assert call.sent[0]["status"] in {200, 422}
    call.hang_up()
    await call.task
