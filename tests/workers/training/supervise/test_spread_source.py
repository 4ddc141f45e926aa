"""Rollouts on a run's other hosts: where groups go, what a lost host costs, how the policy is asked from there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from envhub.protocol.base import JsonObject
from envhub.protocol.evals.rollouts import RolloutRecord, TokenData, Usage

from workers.inference.address import EngineAddress
from workers.inference.process import free_port
from workers.rollouts.interceptor.answers import Answer, Route, UpstreamFailed
from workers.training.cluster.rollout_server import AskedPolicy, Printed, application
from workers.training.coordinator.plan import RolloutRequest
from workers.training.supervise.policy_server import policy_server
from workers.training.supervise.spread_source import HostLost, RolloutHost, RolloutHosts

KEY = "k"


def request(name: str = "t1") -> RolloutRequest:
    return RolloutRequest(name=name, example=3, n=4, split="train", sampling={"max_tokens": 5})


@dataclass
class Environment:
    """Stands for a loaded environment; its groups end when they may."""

    asked: list[str] = field(default_factory=list)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, asked: RolloutRequest) -> list[RolloutRecord]:
        self.asked.append(asked.name)
        await self.may_end.wait()
        return []


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def environment() -> Environment:
    return Environment()


@pytest.fixture
async def host(environment: Environment) -> AsyncIterator[RolloutHost]:
    """A rollout server on this machine."""
    port = free_port()
    sources: Any = {"train/reverse": environment}
    runner = web.AppRunner(application(sources, KEY), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield RolloutHost("10.0.0.2", EngineAddress(f"http://127.0.0.1:{port}/v1", KEY))
    await runner.cleanup()


def hosts(http: aiohttp.ClientSession, *known: RolloutHost) -> RolloutHosts:
    return RolloutHosts(http, lambda text: None, dict(enumerate(known, 1)))


def test_groups_go_where_the_fewest_rollouts_are() -> None:
    first, second = (RolloutHost(name, EngineAddress("http://x/v1", "")) for name in ("a", "b"))
    known = hosts(None, first, second)  # type: ignore[arg-type]
    assert known.pick() is None  # all are idle: here
    known.here = 4
    assert known.pick() is first
    first.rollouts = 4
    assert known.pick() is second
    second.rollouts = 4
    assert known.pick() is None


async def test_another_host_gives_a_group(
    http: aiohttp.ClientSession, host: RolloutHost, environment: Environment
) -> None:
    environment.may_end.set()
    assert await hosts(http, host).ask(host, "train/reverse", request()) == []
    assert environment.asked == ["t1"]


async def test_a_caller_without_the_key_gets_nothing(http: aiohttp.ClientSession, host: RolloutHost) -> None:
    stranger = RolloutHost(host.name, EngineAddress(host.address.base_url, "guessed"))
    with pytest.raises(HostLost, match="401"):
        await hosts(http, stranger).ask(stranger, "train/reverse", request())


async def test_a_group_is_lost_as_soon_as_its_host_is_known_to_be_gone(
    http: aiohttp.ClientSession, host: RolloutHost, environment: Environment
) -> None:
    asking = asyncio.create_task(hosts(http, host).ask(host, "train/reverse", request()))
    while not environment.asked:
        await asyncio.sleep(0.01)
    host.gone.set()
    with pytest.raises(HostLost, match="gone"):
        await asyncio.wait_for(asking, 30)


async def test_a_group_takes_longer_than_the_limit_of_other_requests(
    host: RolloutHost, environment: Environment
) -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.2)) as http:
        asking = asyncio.create_task(hosts(http, host).ask(host, "train/reverse", request()))
        await asyncio.sleep(0.4)
        environment.may_end.set()
        assert await asking == []


async def test_a_host_whose_answer_cannot_be_read_has_lost_its_group(http: aiohttp.ClientSession) -> None:
    async def nonsense(_: web.Request) -> web.Response:
        return web.json_response([{"not": "a rollout"}])

    server = web.Application()
    server.router.add_post("/run/{path:.*}", nonsense)
    async with TestServer(server) as there:
        broken = RolloutHost("10.0.0.3", EngineAddress(str(there.make_url("/v1")), KEY))
        with pytest.raises(HostLost, match="no list of rollouts"):
            await hosts(http, broken).ask(broken, "train/reverse", request())


async def test_a_host_that_does_not_answer_has_lost_its_group(http: aiohttp.ClientSession) -> None:
    nobody = RolloutHost("10.0.0.9", EngineAddress(f"http://127.0.0.1:{free_port()}/v1", KEY))
    with pytest.raises(HostLost, match="Connect"):
        await hosts(http, nobody).ask(nobody, "train/reverse", request())


@dataclass
class Policy:
    model: str = "hub/tiny"
    refuses: str = ""

    async def send(self, route: Route, body: JsonObject) -> Answer:
        if self.refuses:
            raise UpstreamFailed(self.refuses)
        tokens = TokenData(prompt_ids=(1, 2), completion_ids=(3,), logprobs=(-0.5,))
        return Answer(body=body, tokens=tokens, usage=Usage(), policy_version=7, finish_reason="stop")


async def test_an_answer_of_the_policy_is_the_same_on_another_host(http: aiohttp.ClientSession) -> None:
    async with policy_server(Policy(), "127.0.0.1") as address:
        there = AskedPolicy("hub/tiny", address, http)
        body = {"messages": [{"role": "user", "content": "ä"}]}
        assert await there.send(Route.CHAT, body) == await Policy().send(Route.CHAT, body)


async def test_what_the_policy_cannot_answer_is_said_there_too(http: aiohttp.ClientSession) -> None:
    async with policy_server(Policy(refuses="no engine"), "127.0.0.1") as address:
        with pytest.raises(UpstreamFailed, match="no engine"):
            await AskedPolicy("hub/tiny", address, http).send(Route.CHAT, {})


async def test_the_policy_answers_nobody_without_its_key(http: aiohttp.ClientSession) -> None:
    async with policy_server(Policy(), "127.0.0.1") as address:
        stranger = AskedPolicy("hub/tiny", EngineAddress(address.base_url, "guessed"), http)
        with pytest.raises(UpstreamFailed, match="401"):
            await stranger.send(Route.CHAT, {})


def test_what_another_host_says_has_no_secret_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    log = Printed(None, limit=0)  # type: ignore[arg-type]
    log.mask(["a-secret-of-the-run"])
    log.write("it is a-secret-of-the-run\n")
    assert capsys.readouterr().out == "it is ***\n"
    assert log.masked("a-secret-of-the-run") == "***"  # what is reported in other ways
