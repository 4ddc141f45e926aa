"""What the endpoint does wrong never becomes the model's fault; what the model refuses reaches the box as it is."""

from __future__ import annotations

import time
from collections import deque
from urllib.parse import urlsplit

import pytest
from envhub.errors import EnvhubError
from envhub.protocol.models.catalog import OutboundPolicy

from tests.e2e.stack import free_port
from tests.fakes.forward_proxy import ForwardProxy
from tests.fakes.policy_endpoint import Fault, PolicyEndpoint
from tests.workers.rollouts.conftest import HELLO, Box, OpenBox, quick_endpoint, target
from workers.rollouts.interceptor.answers import Route, UpstreamFailed
from workers.rollouts.interceptor.connections import open_endpoint
from workers.rollouts.interceptor.server import Interceptor

CHAT = "/r/g.0/v1/chat/completions"
PASSING = [Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.GARBAGE, Fault.DISCONNECT, Fault.DISCONNECT_MID_STREAM]


@pytest.mark.parametrize("fault", PASSING)
async def test_a_passing_fault_is_retried_and_unseen_by_the_box(box: Box, stub: PolicyEndpoint, fault: Fault) -> None:
    recorder = box.interceptor.open("g.0", key="g.0")
    stub.faults = deque([fault])
    status, _ = await box.post(CHAT, HELLO)
    assert status == 200
    assert [turn.retries for turn in recorder.turns] == [1]


@pytest.mark.parametrize("fault", [*PASSING, Fault.HANG, Fault.NO_KEY])
async def test_a_lasting_fault_is_infrastructure_and_holds_no_key(
    stub: PolicyEndpoint, open_box: OpenBox, fault: Fault
) -> None:
    stub.always = fault
    async with (
        quick_endpoint(stub.base_url, retries=1, timeout=0.3) as endpoint,
        open_box(Interceptor(endpoint)) as box,
    ):
        recorder = box.interceptor.open("g.0", key="g.0")
        status, body = await box.post(CHAT, HELLO)
    assert (status, body["error"]["type"]) == (503, "hub_infrastructure")
    (turn,) = recorder.turns
    assert (turn.status, turn.trainable) == (503, False)
    assert turn.error
    assert "sk-very-secret" not in str(body) + turn.model_dump_json()


async def test_a_prompt_that_is_too_long_is_the_models_own_refusal(box: Box, stub: PolicyEndpoint) -> None:
    recorder = box.interceptor.open("g.0", key="g.0")
    stub.always = Fault.CONTEXT_LENGTH
    status, body = await box.post(CHAT, HELLO)
    assert status == 400
    assert "maximum context length" in body["error"]["message"]
    assert (recorder.turns[0].status, recorder.turns[0].trainable) == (400, False)


async def test_a_refusal_reaches_anthropics_clients_in_their_shape(box: Box, stub: PolicyEndpoint) -> None:
    box.interceptor.open("g.0", key="g.0")
    stub.always = Fault.CONTEXT_LENGTH
    status, body = await box.post("/r/g.0/v1/messages", HELLO | {"max_tokens": 5})
    assert (status, body["type"]) == (400, "error")
    assert "maximum context length" in body["error"]["message"]


async def test_a_strange_answer_is_the_endpoints_fault_in_the_responses_protocol(
    box: Box, stub: PolicyEndpoint
) -> None:
    recorder = box.interceptor.open("g.0", key="g.0")
    stub.always = Fault.STRANGE_CALL
    status, body = await box.post("/r/g.0/v1/responses", {"model": "m", "input": "hi"})
    assert (status, body["error"]["type"]) == (503, "hub_infrastructure")
    assert "strange answer" in body["error"]["message"]
    assert recorder.turns[0].status == 503


async def test_variants_share_the_calls_and_cover_for_each_other(stub: PolicyEndpoint) -> None:
    async with PolicyEndpoint() as other, quick_endpoint(stub.base_url, other.base_url) as endpoint:
        for _ in range(4):
            await endpoint.send(Route.CHAT, HELLO)
        assert (len(stub.requests), len(other.requests)) == (2, 2)
        stub.always = Fault.SERVER_ERROR
        answers = [await endpoint.send(Route.CHAT, HELLO) for _ in range(4)]
        assert all(answer.ok for answer in answers)
        assert len(other.requests) == 6


async def test_retry_after_is_obeyed(stub: PolicyEndpoint) -> None:
    stub.faults, stub.retry_after = deque([Fault.RATE_LIMIT]), "0.4"
    async with quick_endpoint(stub.base_url) as endpoint:
        began = time.monotonic()
        await endpoint.send(Route.CHAT, HELLO)
    assert time.monotonic() - began >= 0.39


async def test_a_bad_key_is_not_tried_again_and_again(stub: PolicyEndpoint) -> None:
    stub.always = Fault.NO_KEY
    async with quick_endpoint(stub.base_url, retries=5) as endpoint:
        with pytest.raises(UpstreamFailed, match="Incorrect API key"):
            await endpoint.send(Route.CHAT, HELLO)
        assert (len(stub.requests), endpoint.failures_in_a_row) == (1, 1)


async def test_an_endpoint_that_refuses_token_ids_is_asked_without_them_from_then_on(stub: PolicyEndpoint) -> None:
    stub.refuses_token_ids = True
    async with quick_endpoint(stub.base_url) as endpoint:
        first = await endpoint.send(Route.CHAT, HELLO)
        await endpoint.send(Route.CHAT, HELLO)
    assert (first.ok, first.tokens) == (True, None)
    assert ["return_token_ids" in seen.body for seen in stub.requests] == [True, False, False]
    assert stub.requests[-1].body["logprobs"] is True


async def test_refusals_that_never_say_why_are_believed_after_three_calls(stub: PolicyEndpoint) -> None:
    stub.refuses_token_ids, stub.refusal = True, "Bad request"
    async with quick_endpoint(stub.base_url) as endpoint:
        for _ in range(5):
            assert (await endpoint.send(Route.CHAT, HELLO)).ok
    asked = ["return_token_ids" in seen.body for seen in stub.requests]
    assert asked == [True, False] * 3 + [False, False]


async def test_refusals_that_never_say_why_are_forgotten_with_the_next_whole_answer(stub: PolicyEndpoint) -> None:
    async with quick_endpoint(stub.base_url) as endpoint:
        for _ in range(4):
            stub.faults = deque([Fault.CONTEXT_LENGTH])
            await endpoint.send(Route.CHAT, HELLO)
            assert (await endpoint.send(Route.CHAT, HELLO)).tokens is not None


async def test_a_refusal_that_is_about_something_else_costs_no_tokens_of_later_calls(stub: PolicyEndpoint) -> None:
    stub.faults = deque([Fault.CONTEXT_LENGTH])
    async with quick_endpoint(stub.base_url) as endpoint:
        await endpoint.send(Route.CHAT, HELLO)
        assert (await endpoint.send(Route.CHAT, HELLO)).tokens is not None


async def test_an_endpoint_that_ignores_token_ids_gives_none(stub: PolicyEndpoint) -> None:
    stub.ignores_token_ids = True
    async with quick_endpoint(stub.base_url) as endpoint:
        assert (await endpoint.send(Route.CHAT, HELLO)).tokens is None


async def test_a_refused_address_is_never_connected_to() -> None:
    closed = target("http://127.0.0.1:9/v1").model_copy(update={"outbound": OutboundPolicy()})
    with pytest.raises(EnvhubError):
        async with open_endpoint(closed):
            pass
    named = target("http://localhost:9/v1", retries=0).model_copy(update={"outbound": OutboundPolicy()})
    async with open_endpoint(named) as endpoint:
        with pytest.raises(UpstreamFailed, match="inside the hub's own network"):
            await endpoint.send(Route.CHAT, HELLO)


async def test_an_endpoint_outside_is_asked_by_the_operators_proxy(
    stub: PolicyEndpoint, open_box: OpenBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = urlsplit(stub.base_url)
    with ForwardProxy(free_port(), {"models.invalid:80": (str(there.hostname), there.port or 0)}) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        async with (
            quick_endpoint("http://models.invalid/v1", stub.base_url) as endpoint,
            open_box(Interceptor(endpoint)) as box,
        ):
            box.interceptor.open("g.0", key="g.0")
            answers = [await box.post(CHAT, HELLO) for _ in range(2)]
    assert [status for status, _ in answers] == [200, 200]
    assert [one.line for one in proxy.asked] == ["POST http://models.invalid/v1/chat/completions HTTP/1.1"]


async def test_a_proxy_that_refuses_is_told_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    with ForwardProxy(free_port(), {}) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//hub:sesame@"))
        async with quick_endpoint("https://models.invalid/v1", retries=0) as endpoint:
            with pytest.raises(UpstreamFailed) as caught:
                await endpoint.send(Route.CHAT, HELLO)
    assert proxy.asked[0].authorization == "Basic aHViOnNlc2FtZQ=="
    assert "403" in str(caught.value)
    assert "sesame" not in str(caught.value)
