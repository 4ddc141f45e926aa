"""The torch engine's routes, with the official OpenAI client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from aiohttp import web

engine = pytest.importorskip("workers.inference.torch_engine.serving")
server = pytest.importorskip("workers.inference.torch_engine.server")
chat = pytest.importorskip("workers.inference.torch_engine.chat")
pytestmark = pytest.mark.torch
HI: Any = [{"role": "user", "content": "hi"}]


@pytest.fixture
async def client(tiny_model: Path) -> AsyncIterator[openai.AsyncOpenAI]:
    model, tokenizer, eos_ids, context = engine.load(tiny_model)
    with server.Scheduler(model, eos_ids=eos_ids, max_batch=8, context=context) as scheduler:
        served = server.Served(scheduler, tokenizer, ("hub/tiny",), context)
        runner = web.AppRunner(server.Routes(served, "x").application(), handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x", max_retries=0) as openai_:
            yield openai_
        await runner.cleanup()


async def complete(client: openai.AsyncOpenAI, **settings: Any) -> Any:
    return await client.chat.completions.create(model="hub/tiny", messages=HI, max_tokens=12, **settings)


async def test_token_ids_and_logprobs_belong_to_the_text(client: openai.AsyncOpenAI) -> None:
    answer = await complete(client, logprobs=True, extra_body={"return_token_ids": True})
    choice = answer.choices[0]
    assert len(choice.token_ids) == len(choice.logprobs.content) == answer.usage.completion_tokens
    assert all(entry.logprob <= 0 for entry in choice.logprobs.content)
    assert answer.prompt_token_ids


async def test_zero_logprobs_of_a_text_completion_are_those_of_its_own_tokens(client: openai.AsyncOpenAI) -> None:
    whole = {"ignore_eos": True}
    answer = await client.completions.create(model="hub/tiny", prompt="hi", max_tokens=3, logprobs=0, extra_body=whole)
    spelled = answer.choices[0].logprobs
    assert spelled is not None
    assert len(spelled.token_logprobs or ()) == 3
    assert spelled.top_logprobs == [None] * 3


async def test_a_seed_repeats_the_answer_and_choices_differ(client: openai.AsyncOpenAI) -> None:
    first, second = [await complete(client, seed=3, n=3) for _ in range(2)]
    texts = [choice.message.content for choice in first.choices]
    assert texts == [choice.message.content for choice in second.choices]
    assert len(set(texts)) == 3


async def test_a_stream_says_the_same_as_the_whole_answer(client: openai.AsyncOpenAI) -> None:
    whole = await complete(client, seed=5)
    stream = await complete(client, seed=5, stream=True)
    pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(pieces) == whole.choices[0].message.content


async def test_every_event_of_a_stream_says_the_usage_so_far_when_asked(client: openai.AsyncOpenAI) -> None:
    whole = await complete(client, seed=5)
    options = {"include_usage": True, "continuous_usage_stats": True}
    stream = await complete(client, seed=5, stream=True, stream_options=options)
    used = [chunk.usage.completion_tokens async for chunk in stream]
    total = whole.usage.completion_tokens
    assert used == [*range(1, total + 1), total]


async def test_a_stop_string_ends_the_text(client: openai.AsyncOpenAI) -> None:
    whole = (await complete(client, seed=5)).choices[0].message.content
    stopped = await complete(client, seed=5, stop=whole[3])
    assert whole.startswith(stopped.choices[0].message.content)
    assert stopped.choices[0].finish_reason == "stop"


async def test_a_prompt_of_token_ids_is_taken_as_it_is(client: openai.AsyncOpenAI) -> None:
    answer = await client.completions.create(
        model="hub/tiny", prompt=[4, 60, 61], max_tokens=4, extra_body={"return_token_ids": True, "ignore_eos": True}
    )
    assert answer.prompt_token_ids == [4, 60, 61]  # type: ignore[attr-defined]
    assert answer.choices[0].finish_reason == "length"


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"messages": []}, openai.BadRequestError),
        ({"messages": [{"role": "user", "content": "x" * 3000}]}, openai.BadRequestError),
        ({"temperature": -1}, openai.BadRequestError),
        ({"extra_body": {"chat_template_kwargs": "no object"}}, openai.BadRequestError),
        ({"model": "nobody/knows"}, openai.NotFoundError),
    ],
)
async def test_bad_requests_are_refused(
    client: openai.AsyncOpenAI, settings: dict[str, Any], error: type[Exception]
) -> None:
    body: dict[str, Any] = {"model": "hub/tiny", "messages": HI, **settings}
    with pytest.raises(error):
        await client.chat.completions.create(**body)


@pytest.mark.parametrize(
    "settings",
    [
        {"prompt": ""},
        {"prompt": [4, 10**6]},
        {"prompt": [-1]},
        {"prompt": "hi", "extra_body": {"stop": 5}},
        {"prompt": "hi", "extra_body": {"stop": [5]}},
        {"prompt": "hi", "stop": [""]},
    ],
)
async def test_a_prompt_or_stop_that_cannot_be_used_is_refused_and_harms_nobody_else(
    client: openai.AsyncOpenAI, settings: dict[str, Any]
) -> None:
    with pytest.raises(openai.BadRequestError):
        await client.completions.create(model="hub/tiny", max_tokens=2, timeout=5, **settings)
    assert (await client.with_options(timeout=5).completions.create(model="hub/tiny", prompt="hi", max_tokens=2)).usage


async def test_a_temperature_next_to_zero_is_greedy(client: openai.AsyncOpenAI) -> None:
    patient = client.with_options(timeout=5)
    texts = [(await complete(patient, temperature=t)).choices[0].message.content for t in (0.0, 1e-40, 1e-46)]
    assert len(set(texts)) == 1


async def test_tokens_that_were_ruled_out_have_a_logprob_that_json_knows(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.with_raw_response.create(
        model="hub/tiny", messages=HI, max_tokens=2, top_p=0.001, logprobs=True, top_logprobs=3
    )
    assert "Infinity" not in answer.text
    assert len(json.loads(answer.text)["choices"][0]["logprobs"]["content"][0]["top_logprobs"]) == 3


def test_tool_calls_are_read_from_the_text() -> None:
    text = 'so: <tool_call>{"name": "calculate", "arguments": {"expression": "3*4"}}</tool_call>'
    rest, calls = chat.split_tool_calls(text)
    assert rest == "so:"
    assert calls[0]["function"] == {"name": "calculate", "arguments": '{"expression": "3*4"}'}


def test_a_malformed_tool_call_stays_text() -> None:
    text = "<tool_call>{not json}</tool_call>"
    assert chat.split_tool_calls(text) == (text, [])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"response_format": {"type": "json_object"}}, "response_format is not supported"),
        (
            {"tool_choice": "required", "tools": [{"type": "function", "function": {"name": "f"}}]},
            "cannot force a call",
        ),
        ({"extra_body": {"repetition_penalty": 1.2}}, "repetition_penalty is not supported"),
        ({"extra_body": {"min_tokens": 4}}, "min_tokens is not supported"),
        ({"stream": True, "extra_body": {"stream_options": 5}}, "stream_options must be an object"),
        ({"extra_body": {"messages": [{"role": "assistant", "tool_calls": ["f"]}]}}, "tool_calls must be a list"),
        ({"extra_body": {"messages": [{"role": "assistant", "tool_calls": [{}]}]}}, "must have a function"),
    ],
)
async def test_what_the_engine_cannot_do_is_refused(
    client: openai.AsyncOpenAI, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=message):
        await complete(client, **settings)


async def test_settings_that_change_nothing_are_taken(client: openai.AsyncOpenAI) -> None:
    neutral = {"repetition_penalty": 1.0, "min_tokens": 0, "stop_token_ids": [], "response_format": {"type": "text"}}
    assert (await complete(client, tool_choice="auto", presence_penalty=0, extra_body=neutral)).choices
