"""/inference/v1 in front of a stub endpoint: who may call, what is passed on, what happens when it fails."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient
from envhub.protocol.accounts.users import Scope

from hub.accounts.models import User
from hub.accounts.services import disable_user
from hub.catalog.models import Variant
from tests.e2e.stack import free_port
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.catalog import create_endpoint
from tests.fakes.forward_proxy import ForwardProxy
from tests.fakes.policy_endpoint import Fault, PolicyEndpoint

pytestmark = pytest.mark.django_db(transaction=True)
CHAT = "/inference/v1/chat/completions"
HI = [{"role": "user", "content": "hi"}]


@pytest.fixture
async def endpoint() -> AsyncIterator[PolicyEndpoint]:
    async with PolicyEndpoint() as stub:
        yield stub


def prepare(endpoint: PolicyEndpoint, **changes: Any) -> tuple[User, str]:
    """A user with the model `stub`, and the user's token."""
    user = make_user("alice")
    create_endpoint(user, base_url=endpoint.base_url, **changes)
    return user, make_token(user)


async def call(token: str, path: str = CHAT, **body: Any) -> Any:
    content = json.dumps({"model": "alice/stub", "messages": HI, **body})
    return await AsyncClient().post(path, content, content_type="application/json", headers=bearer(token))


async def test_a_call_reaches_the_endpoint_under_its_own_model_name_and_key(endpoint: PolicyEndpoint) -> None:
    _, token = await sync_to_async(prepare)(endpoint)
    answer = await call(token)
    assert answer.status_code == 200
    assert json.loads(answer.content)["choices"][0]["message"]["content"] == "hello"
    (seen,) = endpoint.requests
    assert seen.body["model"] == "m"
    assert {name.lower(): value for name, value in seen.headers.items()}["authorization"] == "Bearer sk-secret"


async def test_an_adapter_is_called_with_or_without_its_base(endpoint: PolicyEndpoint) -> None:
    _, token = await sync_to_async(prepare)(endpoint)
    assert (await call(token, model="hub/tiny:alice/stub")).status_code == 200
    assert (await call(token, model="alice/stub:alice/none")).status_code == 404


async def test_a_model_of_no_owner_is_none() -> None:
    answer = await AsyncClient().get("/inference/v1/models/gpt-4")
    assert (answer.status_code, json.loads(answer.content)["error"]["code"]) == (404, "model_not_found")


async def test_a_stream_is_passed_on(endpoint: PolicyEndpoint) -> None:
    _, token = await sync_to_async(prepare)(endpoint)
    answer = await call(token, stream=True)
    text = b"".join([piece async for piece in answer.streaming_content]).decode()
    assert answer["Content-Type"] == "text/event-stream"
    assert text.rstrip().endswith("data: [DONE]")


async def test_an_endpoint_outside_is_asked_by_the_operators_proxy(
    endpoint: PolicyEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, token = await sync_to_async(prepare)(endpoint)
    there = urlsplit(endpoint.base_url)
    with ForwardProxy(free_port(), {"models.invalid:80": (str(there.hostname), there.port or 0)}) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        await Variant.objects.aupdate(base_url="http://models.invalid/v1")
        assert (await call(token)).status_code == 200
    assert [one.line for one in proxy.asked] == ["POST http://models.invalid/v1/chat/completions HTTP/1.1"]


async def test_a_proxy_that_refuses_is_told_without_its_password(
    endpoint: PolicyEndpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _, token = await sync_to_async(prepare)(endpoint, max_retries=0)
    with ForwardProxy(free_port(), {}) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//hub:sesame@"))
        await Variant.objects.aupdate(base_url="https://models.invalid/v1")
        answer = await call(token)
    assert answer.status_code == 503
    assert proxy.asked[0].authorization == "Basic aHViOnNlc2FtZQ=="
    assert "sesame" not in answer.content.decode() + caplog.text


async def test_a_failing_call_is_repeated(endpoint: PolicyEndpoint) -> None:
    _, token = await sync_to_async(prepare)(endpoint)
    endpoint.faults.append(Fault.SERVER_ERROR)
    assert (await call(token)).status_code == 200
    assert len(endpoint.requests) == 2


async def test_a_dead_endpoint_is_a_clear_503(endpoint: PolicyEndpoint) -> None:
    user = await sync_to_async(make_user)("alice")
    await sync_to_async(create_endpoint)(user, base_url="http://127.0.0.1:9/v1", max_retries=0)
    answer = await call(await sync_to_async(make_token)(user))
    assert answer.status_code == 503
    assert json.loads(answer.content)["error"]["code"] == "endpoint_failed"


async def test_an_address_whose_name_is_gone_leaves_the_calls_to_the_models_other_one(endpoint: PolicyEndpoint) -> None:
    def two_addresses() -> str:
        user, token = prepare(endpoint)
        first = Variant.objects.get(model__owner=user.owner)
        Variant.objects.create(
            model=first.model,
            position=1,
            kind=first.kind,
            base_url="http://gone.invalid/v1",
            remote_model="m",
            timeout_s=5,
            max_retries=0,
        )
        return token

    token = await sync_to_async(two_addresses)()
    assert [(await call(token)).status_code for _ in range(2)] == [200, 200]  # each is asked first once


async def test_an_endpoints_refusal_reaches_the_caller_without_its_key(endpoint: PolicyEndpoint) -> None:
    _, token = await sync_to_async(prepare)(endpoint, api_key="authentication_error")
    endpoint.faults.append(Fault.NO_KEY)
    answer = await call(token)
    assert (answer.status_code, json.loads(answer.content)["error"]["message"]) == (401, "Incorrect API key provided")
    assert b"authentication_error" not in answer.content


async def test_a_bad_request_of_the_endpoint_reaches_the_caller(endpoint: PolicyEndpoint) -> None:
    _, token = await sync_to_async(prepare)(endpoint)
    endpoint.faults.append(Fault.CONTEXT_LENGTH)
    assert (await call(token)).status_code == 400


@pytest.mark.parametrize("path", [CHAT, "/inference/v1/completions"])
async def test_somebody_elses_private_model_does_not_exist(endpoint: PolicyEndpoint, path: str) -> None:
    await sync_to_async(prepare)(endpoint)
    stranger = bearer(await sync_to_async(make_token)(await sync_to_async(make_user)("mallory")))
    body = {"model": "alice/stub", "messages": [], "prompt": ""}
    answer = await AsyncClient().post(path, body, content_type="application/json", headers=stranger)
    assert answer.status_code == 404
    assert endpoint.requests == []
    listed = await AsyncClient().get("/inference/v1/models", headers=stranger)
    assert json.loads(listed.content)["data"] == []
    assert (await AsyncClient().get("/inference/v1/models/alice/stub", headers=stranger)).status_code == 404


@pytest.mark.parametrize("scopes", [(), (Scope.READ, Scope.WRITE)])
async def test_a_token_with_the_scope_is_needed(endpoint: PolicyEndpoint, scopes: tuple[Scope, ...]) -> None:
    user, _ = await sync_to_async(prepare)(endpoint)
    token = await sync_to_async(make_token)(user, *scopes) if scopes else "hub_wrong"
    assert (await call(token)).status_code in {401, 403}


async def test_models_lists_what_the_caller_may_use(endpoint: PolicyEndpoint) -> None:
    _, token = await sync_to_async(prepare)(endpoint)
    answer = await AsyncClient().get("/inference/v1/models", headers=bearer(token))
    (listed,) = json.loads(answer.content)["data"]
    assert listed["id"] == "alice/stub"
    for path in ("alice/stub", "alice%2Fstub"):  # as OpenAI's clients write it
        one = await AsyncClient().get(f"/inference/v1/models/{path}", headers=bearer(token))
        assert json.loads(one.content) == listed
    other = await AsyncClient().get("/inference/v1/models/alice/nothing", headers=bearer(token))
    assert (other.status_code, "no model alice/nothing" in json.loads(other.content)["error"]["message"]) == (404, True)


async def test_a_disabled_user_gets_neither_models_nor_answers(endpoint: PolicyEndpoint) -> None:
    user, token = await sync_to_async(prepare)(endpoint)
    assert (await call(token)).status_code == 200
    administrator = await sync_to_async(make_user)(is_superuser=True)
    await sync_to_async(disable_user)(user=user, by=administrator)
    answers = [await call(token), await AsyncClient().get("/inference/v1/models", headers=bearer(token))]
    assert [answer.status_code for answer in answers] == [401, 401]


@pytest.mark.parametrize("content", ["", "[]", '{"messages": []}', "{"])
async def test_a_malformed_body_is_refused_in_openais_shape(endpoint: PolicyEndpoint, content: str) -> None:
    _, token = await sync_to_async(prepare)(endpoint)
    answer = await AsyncClient().post(CHAT, content, content_type="application/json", headers=bearer(token))
    assert answer.status_code == 422
    assert json.loads(answer.content)["error"]["message"]


@pytest.mark.parametrize("path", ["responses", "embeddings", "chat"])
async def test_what_openais_api_has_beyond_is_answered_with_what_there_is(path: str) -> None:
    answer = await AsyncClient().post(f"/inference/v1/{path}", "{}", content_type="application/json")
    assert answer.status_code == 404
    message = json.loads(answer.content)["error"]["message"]
    assert f"/inference/v1/{path} does not exist" in message
    assert "/chat/completions" in message
