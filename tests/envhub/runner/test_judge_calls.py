"""envhub.runner.judge_calls with the real httpx."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from envhub.runner.attempts import CURRENT, Attempt
from envhub.runner.judge_calls import HEADER, mark_judge_calls

JUDGE = "http://127.0.0.1:8000/judge"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[httpx.Request]]:
    """Requests of a client made after the marking, while one attempt is current."""
    for client in (httpx.Client, httpx.AsyncClient):
        monkeypatch.setattr(client, "send", client.send)
    mark_judge_calls(JUDGE)
    token = CURRENT.set(Attempt(index=1, sampling={}, base_url="http://127.0.0.1:8000/r/g7.1/v1"))
    yield []
    CURRENT.reset(token)


def answer_to(seen: list[httpx.Request]) -> httpx.MockTransport:
    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200)

    return httpx.MockTransport(answer)


def test_a_judge_call_names_its_rollout_and_other_calls_do_not(seen: list[httpx.Request]) -> None:
    with httpx.Client(transport=answer_to(seen)) as http:
        http.post(f"{JUDGE}/v1/chat/completions")
        http.get("http://127.0.0.1:8000/hf/api/datasets/a/b")
    assert [request.headers.get(HEADER) for request in seen] == ["g7.1", None]


async def test_asynchronous_clients_too(seen: list[httpx.Request]) -> None:
    async with httpx.AsyncClient(transport=answer_to(seen)) as http:
        await http.post(f"{JUDGE}/v1/chat/completions")
    assert seen[0].headers[HEADER] == "g7.1"
