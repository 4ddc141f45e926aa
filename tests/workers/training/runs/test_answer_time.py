"""An answer has as long as the slowest rollout."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from envhub.protocol.models.catalog import LocalTarget
from envhub.protocol.training.config import TrainingConfig
from envhub.protocol.training.runs import PolicyTarget, TrainPayload

from tests.fakes.policy_endpoint import Fault, PolicyEndpoint
from workers.inference.address import EngineAddress
from workers.rollouts.interceptor.answers import Route, UpstreamFailed
from workers.training import run

HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}


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
