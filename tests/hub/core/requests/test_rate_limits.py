"""More requests of a token or an address than the operator allows are refused, and nobody is while Redis is away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hub.core.requests.body_limit import Receive, Scope, Send
from hub.core.requests.rate_limits import RateLimits
from tests.fakes.redis_server import RedisServer


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"fine"})


def caller(*, address: str = "10.0.0.1", broker_url: str = "", **limits: int) -> httpx.AsyncClient:
    application = RateLimits(answer, **{"per_token": 0, "per_address": 0, **limits}, broker_url=broker_url)
    return from_address(application, address)


def from_address(application: RateLimits, address: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(application, client=(address, 1234))  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://hub")


async def statuses(client: httpx.AsyncClient, times: int, path: str = "/api/v1/runs", **headers: str) -> list[int]:
    return [(await client.get(path, headers=headers)).status_code for _ in range(times)]


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis", encrypted=True) as running:
        yield running


async def test_each_token_has_its_own_count_and_the_answer_says_when_to_come_back() -> None:
    client = caller(per_token=3)
    assert await statuses(client, 4, authorization="Bearer hub_a") == [200, 200, 200, 429]
    assert await statuses(client, 3, authorization="Bearer hub_b") == [200] * 3
    assert await statuses(client, 3, cookie="sessionid=x") == [200] * 3
    assert await statuses(client, 1, cookie="other=1; sessionid=x") == [429]
    assert await statuses(client, 9) == [200] * 9  # nobody's: the limit of addresses is another
    refused = await client.get("/", headers={"authorization": "Bearer hub_a"})
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    error: dict[str, Any] = refused.json()["error"]
    assert (error["code"], error["message"]) == ("rate_limited", "more than 3 requests a minute of one token")


async def test_an_address_counts_with_all_its_tokens_and_another_does_not() -> None:
    application = RateLimits(answer, per_token=0, per_address=3, broker_url="")
    client = from_address(application, "10.0.0.1")
    assert [*await statuses(client, 2, authorization="Bearer a"), *await statuses(client, 2)] == [200, 200, 200, 429]
    assert await statuses(from_address(application, "10.0.0.2"), 1) == [200]


async def test_workers_share_a_token_and_monitors_are_always_answered() -> None:
    client = caller(per_token=1, per_address=10)
    assert await statuses(client, 9, authorization="Bearer hubw_shared") == [200] * 9
    assert await statuses(client, 3, authorization="Bearer hubr_1") == [200, 429, 429]
    assert await statuses(client, 9, "/healthz") == [200] * 9


async def test_a_session_counts_whatever_header_comes_with_it_and_so_does_a_page_named_like_a_monitor() -> None:
    client = caller(per_token=3)
    for header in ("Bearer hubw_x", "Bearer other", "Bearer another"):
        assert await statuses(client, 1, cookie="sessionid=x", authorization=header) == [200]
    assert await statuses(client, 1, "/metrics-lab/x", cookie="sessionid=x", authorization="Bearer hubw_x") == [429]


async def test_processes_count_together_in_redis(redis: RedisServer) -> None:
    clients = [caller(per_token=4, broker_url=redis.url) for _ in range(2)]
    for client in clients:
        await statuses(client, 1, authorization="Bearer hub_b")  # connects, which a busy machine may do too slowly
    found = [await statuses(client, 3, authorization="Bearer hub_a") for client in clients]
    assert found == [[200, 200, 200], [200, 429, 429]]


async def test_nobody_is_refused_while_redis_is_away(redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    client = caller(per_token=1, broker_url=redis.url)
    assert await statuses(client, 2, authorization="Bearer hub_a") == [200, 429]
    redis.kill()
    assert await statuses(client, 3, authorization="Bearer hub_a") == [200] * 3
    assert caplog.text.count("Redis does not answer") == 1
    redis.start()
    assert await statuses(client, 2, authorization="Bearer hub_b") == [200, 429]
