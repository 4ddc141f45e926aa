"""envhub.runner.judge_calls with the real httpx."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from envhub.runner import judge_calls
from envhub.runner.attempts import CURRENT, Attempt
from envhub.runner.judge_calls import HEADER, lead_judge_calls

JUDGE = "http://127.0.0.1:8000/judge"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[list[httpx.Request]]:
    """Requests of a client made after the marking, while one attempt is current; the parameter is the box's proxy."""
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, getattr(request, "param", ""))
    for client in (httpx.Client, httpx.AsyncClient):
        monkeypatch.setattr(client, "send", client.send)
    monkeypatch.setattr(judge_calls, "LIBRARIES", ("httpx",))  # what it leads is put back for these alone
    lead_judge_calls(JUDGE)
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


async def test_a_provider_that_the_package_names_itself_is_led_to_the_judges(seen: list[httpx.Request]) -> None:
    async with httpx.AsyncClient(transport=answer_to(seen)) as http:
        await http.post("https://api.openai.com/v1/chat/completions", json={"model": "gpt-4.1-mini"})
        await http.post("https://api.openai.com/v1/embeddings")
        await http.post("http://localhost:9000/v1/chat/completions")
    assert [str(request.url) for request in seen] == [
        f"{JUDGE}/v1/chat/completions",
        "https://api.openai.com/v1/embeddings",
        "http://localhost:9000/v1/chat/completions",
    ]
    assert (seen[0].headers["Host"], seen[0].headers[HEADER]) == ("127.0.0.1:8000", "g7.1")


@pytest.mark.parametrize("seen", ["http://127.0.0.1:9"], indirect=True)
def test_a_box_that_may_reach_hosts_keeps_the_addresses(seen: list[httpx.Request]) -> None:
    with httpx.Client(transport=answer_to(seen)) as http:
        http.post("https://api.openai.com/v1/chat/completions")
    assert str(seen[0].url) == "https://api.openai.com/v1/chat/completions"


@pytest.mark.parametrize(("network", "closed"), [("gateway", True), ("none", True), ("allow-list", False)])
def test_the_proxy_of_a_box_that_reaches_nobody_keeps_no_address(
    network: str, closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:8001")
    monkeypatch.setenv("ENVHUB_NETWORK", network)
    assert judge_calls.is_closed() is closed
