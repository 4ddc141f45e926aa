"""A whole evaluation against a fake hub and a stub endpoint: real interceptor, real boxes, a fake runner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.evals.evaluations import EvalPayload, EvaluationConfig
from envhub.protocol.models.catalog import EndpointTarget, OutboundPolicy, TargetVariant
from envhub.protocol.registry.builds import EnvironmentLock
from envhub.protocol.registry.packages import Generation, GenerationEvidence
from envhub.protocol.runs import Failure, FinishRequest

from tests.fakes.hub import FakeHub, FakeRun
from tests.fakes.policy_endpoint import PolicyEndpoint
from workers.evals.run import run_evaluation
from workers.runs.execution import execute
from workers.runs.hub import HubClient
from workers.settings import WorkerEnvironment
from workers.venvs import interpreters

FAKE_RUNNER = Path(__file__).parents[2] / "fakes" / "runner"


@dataclass
class Evaluations:
    """Runs evaluations; the hub keeps what they stored."""

    hub: FakeHub
    stub: PolicyEndpoint
    data: Path

    def payload(self, *, secrets: Any = None, tries_harness: bool = False, **config: Any) -> EvalPayload:
        """What the hub would claim out."""
        python = interpreters.present()[0].short
        lock = EnvironmentLock(python=python, platform=interpreters.host_platform(), verifiers="", wheels=())
        variant = TargetVariant(
            kind="openai",
            base_url=self.stub.base_url,
            model="stub",
            api_key="sk-very-secret",
            max_retries=0,
            timeout_s=5,
        )
        asked = {"environment": "alice/fake", "model": "alice/stub", "num_examples": -1, "rollouts_per_example": 2}
        return EvalPayload(
            evaluation_id="ev",
            environment="alice/fake@1",
            env_id="fake",
            module="fake",
            evidence=GenerationEvidence(generation=Generation.LEGACY, specifier="", constraint_set="legacy"),
            lock=lock,
            config=EvaluationConfig(**(asked | config)),
            target=EndpointTarget(
                model="alice/stub", variants=(variant,), outbound=OutboundPolicy(allow_loopback=True)
            ),
            secrets=secrets or {},
            tries_harness=tries_harness,
        )

    def queue(self, payload: EvalPayload) -> FakeRun:
        """Queue an evaluation run."""
        return self.hub.add(FakeRun(f"r{len(self.hub.runs)}", payload=payload.model_dump(mode="json")))

    async def run(self, run: FakeRun, stop: asyncio.Event | None = None) -> FinishRequest | None:
        """Claim and execute it."""
        settings = WorkerEnvironment(data=self.data, heartbeat_seconds=0.1, hub_patience_s=10)
        async with HubClient(self.hub.url, "hubw_good", patience_s=10) as client:
            return await execute(client, self.hub.claim(run), run_evaluation, settings, stop or asyncio.Event())

    async def finish(self, **config: Any) -> FinishRequest:
        """Queue, run, and give its end."""
        finish = await self.run(self.queue(self.payload(**config)))
        assert finish is not None
        return finish

    async def failure(self, **config: Any) -> Failure:
        """The same for one that fails."""
        finish = await self.finish(**config)
        assert finish.failure is not None
        return finish.failure


@pytest.fixture
async def evaluations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Evaluations]:
    monkeypatch.setattr("workers.rollouts.boxes.RUNNER_SOURCE", FAKE_RUNNER)
    monkeypatch.setattr("workers.rollouts.groups.FIRST_PAUSE_S", 0.01)
    async with FakeHub() as hub, PolicyEndpoint() as stub:
        yield Evaluations(hub, stub, tmp_path)
