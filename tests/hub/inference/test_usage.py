"""Calls of deployed models are counted; a stream shows its usage only to those who asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient
from envhub.protocol.models.inference import ServeAddress

from hub.inference.models import Deployment
from hub.inference.services import ensure_deployment, report_address
from hub.runs.models import Run
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.runs import hold_run
from tests.factories.training_runs import create_trainable
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = pytest.mark.django_db(transaction=True)
HI = [{"role": "user", "content": "hi"}]


@pytest.fixture
async def token() -> AsyncIterator[str]:
    """Alice's token; her model `sort` is served by a stub engine."""
    async with PolicyEndpoint() as engine:
        yield await sync_to_async(deployed)(engine.base_url)
        await sync_to_async(connections.close_all)()


def deployed(base_url: str) -> str:
    user = make_user("alice")
    deployment = ensure_deployment(model=create_trainable(user.owner, "sort"), user=user)
    run = Run.objects.get(pk=deployment.run_id)
    hold_run(run)
    report_address(run=run, address=ServeAddress(base_url=base_url, secret="s" * 32))
    return make_token(user)


async def call(token: str, **body: Any) -> Any:
    content = json.dumps({"model": "alice/sort", "messages": HI, **body})
    path = "/inference/v1/chat/completions"
    return await AsyncClient().post(path, content, content_type="application/json", headers=bearer(token))


async def events_of(answer: Any) -> list[Any]:
    text = b"".join([piece async for piece in answer.streaming_content]).decode()
    assert text.endswith("data: [DONE]\n\n")
    return [json.loads(event.removeprefix("data: ")) for event in text.split("\n\n")[:-2]]


async def counted() -> tuple[int, int, int]:
    row = await Deployment.objects.aget()
    return row.requests, row.prompt_tokens, row.completion_tokens


async def test_a_whole_answer_is_counted(token: str) -> None:
    usage = json.loads((await call(token)).content)["usage"]
    assert await counted() == (1, usage["prompt_tokens"], usage["completion_tokens"])


async def test_a_stream_is_counted_and_looks_as_it_was_asked_for(token: str) -> None:
    events = await events_of(await call(token, stream=True))
    assert all(event["choices"] for event in events)
    requests, prompt_tokens, completion_tokens = await counted()
    assert (requests, prompt_tokens > 0, completion_tokens > 0) == (1, True, True)


async def test_a_stream_whose_usage_was_asked_for_shows_it(token: str) -> None:
    events = await events_of(await call(token, stream=True, stream_options={"include_usage": True}))
    usage = events[-1]["usage"]
    assert await counted() == (1, usage["prompt_tokens"], usage["completion_tokens"])


async def test_a_refused_call_counts_without_tokens(token: str) -> None:
    assert (await call(token, messages=1)).status_code >= 400
    assert (await counted())[1:] == (0, 0)
