"""A harness that a table chooses and no check has had is tried, before the run's first step."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.registry.builds import EnvironmentLock
from envhub.protocol.registry.packages import Generation, GenerationEvidence
from envhub.protocol.runs import Failure, RunKind
from envhub.protocol.training.config import TrainingConfig
from envhub.protocol.training.runs import EvalTarget, PolicyTarget, TrainPayload, TrainTarget

from tests.fakes.hub import FakeHub, FakeRun
from workers.rollouts.failures import typed_failures
from workers.rollouts.interceptor.scripted import Scripted
from workers.runs.execution import Job, execute
from workers.runs.hub import HubClient
from workers.settings import WorkerEnvironment
from workers.training.coordinator.sources import open_source
from workers.venvs import interpreters

pytestmark = pytest.mark.sandbox
FAKE_RUNNER = Path(__file__).parents[3] / "fakes" / "runner"
LACKING = {"lacks": "npm:pi-acp@0.0.33", "needs": True}


class Sources:
    """Opens one environment of a run after the other, as a training run does; the policy counts as spent GPU time."""

    def __init__(self, hub: FakeHub, data: Path) -> None:
        self.hub = hub
        self.policy = Scripted("hub/tiny")
        self._settings = WorkerEnvironment(data=data, heartbeat_seconds=0.1, hub_patience_s=10)

    async def failure(self, *, tries_harness: bool = True, asked: bool = True, **tables: Any) -> Failure | None:
        """What ends the run. `asked`: harnesses are to be tried here."""
        payload = payload_of(tries_harness=tries_harness, **tables)

        async def body(job: Job) -> None:
            with typed_failures(job):
                for target in (*payload.environments, *payload.evaluations):
                    async with open_source(job, payload, target, self.policy, 1, tries_harness=asked):
                        pass

        run = self.hub.add(FakeRun("r0", RunKind.TRAIN, payload=payload.model_dump(mode="json")))
        async with HubClient(self.hub.url, "hubw_good", patience_s=10) as client:
            finish = await execute(client, self.hub.claim(run), body, self._settings, asyncio.Event())
        assert finish is not None
        return finish.failure


def payload_of(*, tries_harness: bool, **tables: Any) -> TrainPayload:
    config = TrainingConfig.model_validate({"model": "hub/tiny", "env": [{"id": "alice/a"}], **tables})
    more = {
        "env_id": "fake",
        "module": "fake",
        "evidence": GenerationEvidence(generation=Generation.LEGACY, specifier="", constraint_set="legacy"),
        "lock": EnvironmentLock(
            python=interpreters.present()[0].short, platform=interpreters.host_platform(), verifiers="", wheels=()
        ),
        "tries_harness": tries_harness,
    }
    of_evals = config.eval.env if config.eval else ()
    return TrainPayload(
        training_id="tr",
        config=config,
        model=PolicyTarget(reference="hub/tiny"),
        environments=tuple(TrainTarget(label=t.label, environment="alice/a@1", config=t, **more) for t in config.env),
        evaluations=tuple(EvalTarget(label=t.label, environment="alice/a@1", config=t, **more) for t in of_evals),
    )


@pytest.fixture
async def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("workers.rollouts.boxes.RUNNER_SOURCE", FAKE_RUNNER)
    async with FakeHub() as hub:
        yield Sources(hub, tmp_path)


def table(**args: Any) -> list[dict[str, Any]]:
    return [{"id": "alice/a", "harness": {"id": "pi"}, "args": args}]


async def test_what_it_lacks_ends_the_run(sources: Sources) -> None:
    failure = await sources.failure(env=table(**LACKING))
    assert failure is not None
    assert failure.code == "needs_unmet"
    assert failure.message == "alice/a@1 with this harness needs npm package pi-acp@0.0.33"
    assert failure.hint.startswith("npm package pi-acp@0.0.33: the npm registry of the worker's operator has none")


async def test_what_the_file_can_give_is_named_with_its_place(sources: Sources) -> None:
    lacking = {"lacks": "API_KEY", "needs": True, "needs_kind": "secret"}
    failure = await sources.failure(eval={"env": [{"id": "alice/b"}, *table(**lacking)]})
    assert failure is not None
    assert failure.message == "alice/a@1 with this harness needs secret API_KEY"
    assert 'give it to the run, `eval.env[1].secrets = ["API_KEY"]`' in failure.hint


@pytest.mark.parametrize("how", [{"tries_harness": False}, {"asked": False}, {"env": table()}])
async def test_nothing_ends_a_run_whose_harness_works_or_was_tried_elsewhere(
    sources: Sources, how: dict[str, Any]
) -> None:
    assert await sources.failure(**{"env": table(**LACKING), **how}) is None
