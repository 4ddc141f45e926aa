"""Each protocol that a box may speak is answered in its own words, with and without streaming."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest
from envhub.protocol.models.catalog import EndpointKind

from tests.fakes.policy_endpoint import Answer, PolicyEndpoint, template
from tests.workers.rollouts.conftest import HELLO, Box, OpenBox, quick_endpoint
from workers.rollouts.interceptor.server import Interceptor

TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}


def openai_client(box: Box) -> openai.AsyncOpenAI:
    path = str(box.http.connector.path)  # type: ignore[union-attr]
    http = httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=path))
    return openai.AsyncOpenAI(base_url="http://box/r/g.0/v1", api_key="box", http_client=http, max_retries=0)


async def test_a_chat_call_is_answered_and_recorded_with_exact_tokens(box: Box) -> None:
    recorder = box.interceptor.open("g.0", key="g.0")
    status, body = await box.post("/r/g.0/v1/chat/completions", HELLO)
    (turn,) = recorder.turns
    assert (status, body["choices"][0]["message"]["content"]) == (200, "hello")
    assert turn.tokens is not None
    assert list(turn.tokens.prompt_ids) == template(HELLO["messages"])
    assert bytes(turn.tokens.completion_ids[:-1]) == b"hello"
    assert turn.tokens.logprobs == tuple(-0.125 * (i + 1) for i in range(6))
    assert len(turn.token_texts) == 6
    assert "".join(turn.token_texts[:-1]) == "hello"
    assert (turn.response_id, turn.finish_reason, turn.usage.completion_tokens) == (body["id"], "stop", 6)


async def test_the_model_is_fixed_by_the_route_not_by_the_box(box: Box, stub: PolicyEndpoint) -> None:
    box.interceptor.open("g.0", key="g.0")
    _, body = await box.post("/r/g.0/v1/chat/completions", HELLO | {"model": "gpt-9"})
    assert stub.requests[0].body["model"] == "stub"
    assert body["model"] == "alice/stub"


async def test_the_box_sees_tokens_only_when_it_asks(box: Box) -> None:
    box.interceptor.open("g.0", key="g.0")
    _, plain = await box.post("/r/g.0/v1/chat/completions", HELLO)
    _, asked = await box.post("/r/g.0/v1/chat/completions", HELLO | {"logprobs": True, "return_token_ids": True})
    assert "prompt_token_ids" not in plain
    assert "logprobs" not in plain["choices"][0]
    assert asked["prompt_token_ids"] == template(HELLO["messages"])
    assert len(asked["choices"][0]["token_ids"]) == 6


@pytest.mark.parametrize(("asked", "sent"), [(0, 0), (3, 3), (None, 1), (False, 1)])
async def test_a_text_completion_with_zero_logprobs_asks_for_those_of_its_own_tokens(
    box: Box, stub: PolicyEndpoint, asked: Any, sent: int
) -> None:
    recorder = box.interceptor.open("g.0", key="g.0")
    _, body = await box.post("/r/g.0/v1/completions", {"model": "m", "prompt": "once", "logprobs": asked})
    assert stub.requests[-1].body["logprobs"] is sent
    assert ("logprobs" in body["choices"][0]) == (asked in {0, 3} and asked is not False)
    assert recorder.turns[0].tokens is not None
    assert recorder.turns[0].tokens.logprobs


async def test_a_next_turn_extends_the_last_one_exactly(box: Box) -> None:
    recorder = box.interceptor.open("g.0", key="g.0")
    await box.post("/r/g.0/v1/chat/completions", HELLO)
    more = [*HELLO["messages"], {"role": "assistant", "content": "hello"}, {"role": "user", "content": "again"}]
    await box.post("/r/g.0/v1/chat/completions", {"messages": more})
    first, second = (turn.tokens for turn in recorder.turns)
    assert first is not None
    assert second is not None
    so_far = first.prompt_ids + first.completion_ids
    assert second.prompt_ids[: len(so_far)] == so_far


async def test_openais_client_streams_chat_with_tools(box: Box, stub: PolicyEndpoint) -> None:
    stub.answer = lambda body: Answer("let me see", tool_calls=(("add", '{"a": 1}'),))
    recorder = box.interceptor.open("g.0", key="g.0")
    stream = await openai_client(box).chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "hi"}],
        tools=[TOOL],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    calls = [call for chunk in chunks for choice in chunk.choices for call in choice.delta.tool_calls or ()]
    assert [(call.function.name, call.function.arguments) for call in calls] == [("add", '{"a": 1}')]
    assert chunks[-1].usage is not None
    assert [turn.finish_reason for turn in recorder.turns] == ["tool_calls"]


async def test_openais_client_completes_text(box: Box) -> None:
    recorder = box.interceptor.open("g.0", key="g.0")
    completion = await openai_client(box).completions.create(model="m", prompt="once")
    assert completion.choices[0].text == "hello"
    assert recorder.turns[0].tokens is not None
    assert bytes(recorder.turns[0].tokens.prompt_ids) == b"once"


@pytest.mark.parametrize("stream", [False, True])
async def test_openais_client_uses_responses_with_tools(box: Box, stub: PolicyEndpoint, stream: bool) -> None:
    stub.answer = lambda body: Answer("sum:", tool_calls=(("add", '{"a": 1}'),))
    box.interceptor.open("g.0", key="g.0")
    client = openai_client(box)
    function = {"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": False}
    given: Any = [
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
    ]
    if stream:
        async with client.responses.stream(model="m", input=given, tools=[function], instructions="be good") as events:
            response = await events.get_final_response()
    else:
        response = await client.responses.create(model="m", input=given, tools=[function], instructions="be good")
    assert response.output_text == "sum:"
    assert [item.type for item in response.output] == ["message", "function_call"]
    sent = stub.requests[-1].body
    assert [message["role"] for message in sent["messages"]] == ["system", "user", "assistant", "tool"]


@pytest.mark.parametrize("stream", [False, True])
async def test_free_form_and_namespaced_tools_come_back_as_what_they_are(
    box: Box, stub: PolicyEndpoint, stream: bool
) -> None:
    stub.answer = lambda body: Answer("", tool_calls=(("patch", '{"input": "*** x"}'), ("db__ask", "{}")))
    box.interceptor.open("g.0", key="g.0")
    client = openai_client(box)
    ask = {"type": "function", "name": "ask", "parameters": {"type": "object"}, "strict": False}
    tools: Any = [
        {"type": "custom", "name": "patch", "description": "edits"},
        {"type": "namespace", "name": "db", "description": "", "tools": [ask]},
        {"type": "web_search"},
    ]
    given: Any = [
        {"role": "user", "content": "hi"},
        {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** y"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
    ]
    if stream:
        async with client.responses.stream(model="m", input=given, tools=tools) as events:
            response: Any = await events.get_final_response()
    else:
        response = await client.responses.create(model="m", input=given, tools=tools)
    patch, asked = (item.to_dict() for item in response.output)
    assert (patch["type"], patch["name"], patch["input"]) == ("custom_tool_call", "patch", "*** x")
    assert (asked["type"], asked["name"], asked["namespace"]) == ("function_call", "ask", "db")
    sent = stub.requests[-1].body
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["patch", "db__ask"]
    assert sent["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"input": "*** y"}'


async def test_hosted_tools_alone_are_refused(box: Box) -> None:
    box.interceptor.open("g.0", key="g.0")
    asked = {"model": "m", "input": "hi", "tools": [{"type": "web_search"}]}
    assert (await box.post("/r/g.0/v1/responses", asked))[0] == 400


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", list(EndpointKind))
async def test_anthropics_client_is_answered_by_either_kind_of_endpoint(
    stub: PolicyEndpoint, open_box: OpenBox, stream: bool, kind: EndpointKind
) -> None:
    anthropic = pytest.importorskip("anthropic")  # here: its 3000 modules would be imported by every test process
    httpx2 = pytest.importorskip("httpx2")  # what anthropic speaks HTTP with
    stub.answer = lambda body: Answer("thinking", tool_calls=(("add", '{"a": 1}'),))
    async with quick_endpoint(stub.base_url, kind=kind) as endpoint, open_box(Interceptor(endpoint)) as box:
        recorder = box.interceptor.open("g.0", key="g.0")
        path = str(box.http.connector.path)  # type: ignore[union-attr]
        http = httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(uds=path))
        client = anthropic.AsyncAnthropic(base_url="http://box/r/g.0", api_key="box", http_client=http, max_retries=0)
        request: Any = {
            "model": "m",
            "max_tokens": 50,
            "system": "be good",
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"name": "add", "input_schema": {"type": "object"}}],
        }
        if stream:
            async with client.messages.stream(**request) as events:
                message = await events.get_final_message()
        else:
            message = await client.messages.create(**request)
    assert [block.type for block in message.content] == ["text", "tool_use"]
    assert message.content[1].input == {"a": 1}  # type: ignore[union-attr]
    assert message.stop_reason == "tool_use"
    assert recorder.turns[0].protocol == "messages"
    assert recorder.turns[0].usage.completion_tokens == message.usage.output_tokens


@pytest.mark.parametrize("protocol", ["chat/completions", "completions", "messages", "responses"])
async def test_what_a_run_asks_of_the_sampler_reaches_it_in_every_protocol(
    stub: PolicyEndpoint, open_box: OpenBox, protocol: str
) -> None:
    asked = {"temperature": 0.7, "seed": 11, "top_p": 1.0}
    async with quick_endpoint(stub.base_url) as endpoint:
        interceptor = Interceptor(endpoint, shape=lambda key, call, body: {**body, **asked})
        async with open_box(interceptor) as box:
            interceptor.open("g.0", key="g.0")
            status, _ = await box.post(f"/r/g.0/v1/{protocol}", HELLO | {"prompt": "hi", "input": "hi"})
    sent = stub.requests[0].body
    assert (status, {name: sent.get(name) for name in asked}) == (200, asked)


async def test_a_chat_call_reaches_an_anthropic_endpoint(stub: PolicyEndpoint, open_box: OpenBox) -> None:
    async with (
        quick_endpoint(stub.base_url, kind=EndpointKind.ANTHROPIC) as endpoint,
        open_box(Interceptor(endpoint)) as box,
    ):
        box.interceptor.open("g.0", key="g.0")
        messages = [
            {"role": "system", "content": "be good"},
            {"role": "user", "content": "add"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "1"},
            {"role": "user", "content": "so?"},
        ]
        status, body = await box.post("/r/g.0/v1/chat/completions", {"messages": messages, "tools": [TOOL]})
    sent = stub.requests[0].body
    assert (status, body["choices"][0]["message"]["content"]) == (200, "hello")
    assert sent["system"] == "be good"
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "user"]
    assert [block["type"] for block in sent["messages"][2]["content"]] == ["tool_result", "text"]
    assert stub.requests[0].headers["x-api-key"] == "sk-very-secret"


async def test_the_token_route_samples_from_exactly_the_given_ids(box: Box, stub: PolicyEndpoint) -> None:
    recorder = box.interceptor.open("g.0", key="g.0")
    stub.answer = lambda body: Answer("", tool_calls=(("add", '{"a": 1}'),))
    ids = [256, 1, 2, 3]
    body = HELLO | {"tokens": ids, "tools": [TOOL], "logprobs": True, "max_completion_tokens": 9}
    status, answer = await box.post("/r/g.0/v1/chat/completions/tokens", body)
    (turn,) = recorder.turns
    assert (status, stub.requests[0].path, stub.requests[0].body["prompt"]) == (200, "/v1/completions", ids)
    assert stub.requests[0].body["max_tokens"] == 9
    assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "add"
    assert answer["prompt_token_ids"] == ids
    assert turn.tokens is not None
    assert list(turn.tokens.prompt_ids) == ids
    assert len(turn.tokens.logprobs) == len(turn.tokens.completion_ids) == len(answer["choices"][0]["token_ids"])


@pytest.mark.parametrize("path", ["/r/g.0/tokenize", "/r/g.0/v1/tokenize"])
async def test_tokenize_reaches_the_engines_own_route(box: Box, path: str) -> None:
    recorder = box.interceptor.open("g.0", key="g.0")
    status, body = await box.post(path, {"messages": HELLO["messages"], "add_generation_prompt": False})
    assert (status, body["tokens"]) == (200, template(HELLO["messages"], generate=False))
    assert recorder.turns == []


async def test_what_the_box_sends_badly_is_its_own_400(box: Box) -> None:
    box.interceptor.open("g.0", key="g.0")
    assert (await box.post("/r/g.0/v1/messages", {"messages": [{"content": [{"type": "tool_use"}]}]}))[0] == 400
    assert (await box.post("/r/g.0/v1/responses", {"previous_response_id": "x"}))[0] == 400
    assert (await box.post("/r/g.0/v1/chat/completions", ["no", "object"]))[0] == 400
    async with box.http.post("http://box/r/g.0/v1/chat/completions", data=b"{") as response:
        assert response.status == 400


async def test_an_unknown_rollout_or_path_is_a_json_404(box: Box) -> None:
    status, body = await box.post("/r/nobody.0/v1/chat/completions", HELLO)
    assert (status, body["error"]["type"]) == (404, "not_found_error")
    assert (await box.post("/v1/embeddings", {}))[0] == 404


async def test_stream_events_end_as_openai_ends_them(box: Box) -> None:
    box.interceptor.open("g.0", key="g.0")
    _, text = await box.post("/r/g.0/v1/chat/completions", HELLO | {"stream": True})
    events = [line.removeprefix("data: ") for line in text.splitlines() if line]
    assert events[-1] == "[DONE]"
    assert json.loads(events[0])["choices"][0]["delta"]["content"] == "hello"
