"""Rollouts and their clocks begin when the engine serves, and an answer has as long as the slowest rollout."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from envhub.protocol.models.catalog import LocalTarget
from envhub.protocol.training.config import TrainingConfig
from envhub.protocol.training.runs import PolicyTarget, TrainPayload

from tests.fakes.policy_endpoint import Fault, PolicyEndpoint
from tests.workers.training.runs.test_run import SMALL
from workers.inference import process
from workers.inference.address import EngineAddress
from workers.rollouts.interceptor.answers import Answer, Route, UpstreamFailed
from workers.training import run
from workers.training.coordinator.policy import VersionedPolicy

HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.sandbox
@pytest.mark.torch
async def test_nothing_is_asked_before_the_engine_serves(trainings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, early, asked = asyncio.Event(), list[bool](), VersionedPolicy.send
    spawn, open_sources = process.spawn, run.open_sources

    async def sources(*arguments: Any) -> Any:
        found = await open_sources(*arguments)
        opened.set()
        return found

    async def engine(*arguments: Any) -> Any:
        await opened.wait()  # the environments are ready before the engine has even been started
        return await spawn(*arguments)

    async def send(policy: VersionedPolicy, route: Route, body: Any) -> Answer:
        early.append(not policy._open.is_set())
        return await asked(policy, route, body)

    monkeypatch.setattr(run, "open_sources", sources)
    monkeypatch.setattr(process, "spawn", engine)
    monkeypatch.setattr(VersionedPolicy, "send", send)
    evaluation = {"num_examples": 2, "env": [{"id": "alice/reverse-text"}]}
    finish = await trainings.finish(**SMALL | {"max_steps": 1}, eval=evaluation)
    assert finish.state == "succeeded", trainings.hub.runs["r0"].log
    assert early[:16]
    assert not any(early[:16])


async def test_an_answer_may_take_as_long_as_the_slowest_rollout() -> None:
    tables = [{"id": "alice/a", "timeout": 0.05}, {"id": "alice/b", "timeout": 0.15}]
    config = TrainingConfig.model_validate(
        {"model": "m", "env": tables, "eval": {"env": [{**tables[0], "timeout": 0.2}]}}
    )
    model = PolicyTarget(reference="hub/m", base=LocalTarget(fingerprint="f", engine="torch", files={}, urls={}))
    payload = TrainPayload(training_id="t", config=config, model=model, environments=())
    async with PolicyEndpoint(always=Fault.HANG) as stub, aiohttp.ClientSession() as http:
        policy = run.connect_to(payload, http)(EngineAddress(stub.base_url, "key"), "m")
        with pytest.raises(UpstreamFailed, match=r"no answer within 0\.2 s"):
            async with asyncio.timeout(60):
                await policy.send(Route.CHAT, HELLO)
