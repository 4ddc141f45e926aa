"""What every engine answers: one suite on `torch` and on the real vLLM; log-probabilities are those of transformers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio

from workers.inference.policy_engine import PolicyEngine

HI: Any = [{"role": "user", "content": "reverse: abcd"}]
pytestmark = pytest.mark.asyncio(loop_scope="package")


@pytest_asyncio.fixture(loop_scope="package")
async def client(engine: PolicyEngine) -> AsyncIterator[openai.AsyncOpenAI]:
    address = engine.address
    async with openai.AsyncOpenAI(
        base_url=address.base_url, api_key=address.key, max_retries=0, timeout=120
    ) as client_:
        yield client_


async def chat(client: openai.AsyncOpenAI, **settings: Any) -> Any:
    body = {"model": "policy", "messages": HI, "max_tokens": 8, **settings}
    return await client.chat.completions.create(**body)


async def test_token_ids_and_logprobs_of_a_chat(client: openai.AsyncOpenAI) -> None:
    answer = await chat(client, logprobs=True, extra_body={"return_token_ids": True})
    choice = answer.choices[0]
    assert len(choice.token_ids) == len(choice.logprobs.content) == answer.usage.completion_tokens
    assert len(answer.prompt_token_ids) == answer.usage.prompt_tokens


async def test_the_template_is_applied_alike(client: openai.AsyncOpenAI) -> None:
    answer = await chat(client, max_tokens=1, extra_body={"return_token_ids": True})
    text = "<user>reverse: abcd<asst>"
    assert len(answer.prompt_token_ids) == len(text) - len("<user><asst>") + 2


async def test_choices_of_one_prompt(client: openai.AsyncOpenAI) -> None:
    assert len((await chat(client, n=4)).choices) == 4


async def test_a_stream_ends_with_a_finish_reason(client: openai.AsyncOpenAI) -> None:
    chunks = [chunk async for chunk in await chat(client, stream=True)]
    assert chunks[-1].choices[0].finish_reason in {"stop", "length"}


async def test_a_prompt_of_token_ids(client: openai.AsyncOpenAI) -> None:
    answer = await client.completions.create(
        model="policy", prompt=[4, 60, 61, 62], max_tokens=4, logprobs=1, extra_body={"return_token_ids": True}
    )
    assert len(answer.choices[0].token_ids) == answer.usage.completion_tokens  # type: ignore[attr-defined, union-attr]


async def test_an_overlong_prompt_is_400_and_an_unknown_model_404(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError):
        await chat(client, messages=[{"role": "user", "content": "x" * 2000}])
    with pytest.raises(openai.NotFoundError):
        await chat(client, model="nobody/knows")


async def test_tokenize(client: openai.AsyncOpenAI) -> None:
    root = str(client.base_url).removesuffix("v1/")
    answer = await client._client.post(
        f"{root}tokenize", headers=client.auth_headers, json={"model": "policy", "messages": HI}
    )
    assert answer.json()["count"] == len(answer.json()["tokens"])


async def test_greedy_tokens_and_logprobs_are_those_of_the_weights(client: openai.AsyncOpenAI, base: Any) -> None:
    asked: Any = {"return_token_ids": True, "ignore_eos": True}
    answer = await chat(client, temperature=0, max_tokens=32, logprobs=True, top_logprobs=1, extra_body=asked)
    choice = answer.choices[0]
    assert len(choice.token_ids) == 32
    found = [entry.logprob for entry in choice.logprobs.content]
    assert found == pytest.approx(base.logprobs(answer.prompt_token_ids, choice.token_ids), abs=1e-4)
    assert found == pytest.approx(base.highest(answer.prompt_token_ids, choice.token_ids), abs=1e-4)
