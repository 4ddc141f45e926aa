"""A whole training run tells the hub everything: steps, rollouts with token view, evaluations, checkpoints, adapter.

It exports its metrics meanwhile, and asks its model nothing before that serves.
"""

from __future__ import annotations

import asyncio
import io
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from envhub.packaging.segments import read_segment
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.models.catalog import OutboundPolicy
from envhub.protocol.training.runs import TOKENS_KEY, RolloutTokens

from tests.fakes.mlflow import FakeMlflow
from tests.workers.training.runs.trainings import opened
from workers.inference import process
from workers.rollouts.interceptor.answers import Answer, Route
from workers.training import run
from workers.training.coordinator.policy import VersionedPolicy

pytestmark = [pytest.mark.sandbox, pytest.mark.torch]
SMALL: dict[str, Any] = {
    "max_steps": 2,
    "batch_size": 16,
    "rollouts_per_example": 4,
    "learning_rate": 1e-3,
    "sampling": {"max_tokens": 6},
    "trainer": {"rank": 4, "token_budget": 4096},
}


def records(trainings: Any, step: dict[str, Any]) -> list[RolloutRecord]:
    """The rollouts of a reported step, read from storage."""
    blobs = [trainings.hub.blobs[segment["sha256"]] for segment in step["segments"]]
    return [record for blob in blobs for record in read_segment(io.BytesIO(blob))]


@dataclass
class Whole:
    """One run, which the tests look at."""

    trainings: Any
    state: str
    exported: list[dict[str, Any]]  # the runs of its MLflow server
    early: list[bool]  # of each call of the model: before the engine served

    @property
    def log(self) -> str:
        return str(self.trainings.hub.runs["r0"].log)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    with pytest.MonkeyPatch.context() as patch:
        yield asyncio.run(train(tmp_path_factory.mktemp("whole"), patch))


async def train(data: Path, patch: pytest.MonkeyPatch) -> Whole:
    """With evaluations, every exporter, and an engine that is late."""
    early = watch_calls(patch)
    async with opened(data, patch) as trainings, FakeMlflow() as server:
        exporters = {"mlflow": {"tracking_uri": server.uri}, "tensorboard": True, "wandb": {"project": "p"}}
        evaluation = {"num_examples": 2, "interval": 100, "env": [{"id": "alice/reverse-text"}]}
        validation = {"num_examples": 2, "interval": 2}
        payload = trainings.payload(**SMALL, eval=evaluation, val=validation, exporters=exporters)
        payload = payload.model_copy(update={"outbound": OutboundPolicy(allow_loopback=True)})
        finish = await trainings.run(trainings.queue(payload))
        assert finish is not None
        return Whole(trainings, finish.state, server.runs, early)


def watch_calls(patch: pytest.MonkeyPatch) -> list[bool]:
    """Start no engine before the environments are ready; gives of each call of the model whether it came too early."""
    ready, early, asked = asyncio.Event(), list[bool](), VersionedPolicy.send
    spawn, open_sources = process.spawn, run.open_sources

    async def sources(*arguments: Any) -> Any:
        found = await open_sources(*arguments)
        ready.set()
        return found

    async def engine(*arguments: Any) -> Any:
        await ready.wait()
        return await spawn(*arguments)

    async def send(policy: VersionedPolicy, route: Route, body: Any) -> Answer:
        early.append(not policy._open.is_set())
        return await asked(policy, route, body)

    patch.setattr(run, "open_sources", sources)
    patch.setattr(process, "spawn", engine)
    patch.setattr(VersionedPolicy, "send", send)
    return early


def test_every_part_of_a_run_is_reported(whole: Whole) -> None:
    trainings = whole.trainings
    assert whole.state == "succeeded", whole.log
    steps = trainings.steps()
    assert [(step.step, step.version) for step in steps] == [(1, 1), (2, 2)]
    for step in steps:
        assert step.trained_tokens > 0
        assert step.kl is not None
        assert abs(step.kl) < 1e-3 or step.staleness_max  # on policy, sampler and learner say the same
    assert "starting after step 0" in whole.log
    assert "successfully saved" not in whole.log  # a library about each file of a checkpoint
    points = {(point.label, point.step): point.rollouts for point in trainings.evaluations()}
    assert points == {("reverse-text", 0): 2, ("reverse-text", 2): 2, ("val", 0): 2, ("val", 2): 2}
    assert [(one["step"], one["final"]) for one in trainings.reports("adapters")] == [(2, True)]
    assert trainings.reports("checkpoints")[-1]["step"] == 2
    for report in trainings.reports("steps"):
        check_rollouts(trainings, report)
    assert not list((trainings.data / "children").iterdir())
    assert [path.name for path in trainings.data.rglob("logprobs/*")] == []  # told, and so removed


def test_nothing_is_asked_before_the_engine_serves(whole: Whole) -> None:
    assert whole.early[:16]
    assert not any(whole.early[:16])


def test_every_step_is_exported_though_one_exporter_is_broken(whole: Whole) -> None:
    assert "export to W&B has ended: the secret WANDB_API_KEY is missing" in whole.log
    (external,) = whole.exported
    assert external["info"]["status"] == "FINISHED"
    kl = {row["step"]: row["value"] for row in external["history"]["kl"]}
    assert kl == {step.step: step.kl for step in whole.trainings.steps()}
    assert [row["step"] for row in external["history"]["eval/val"]] == [0, 2]
    folder = whole.trainings.data / "metrics" / "tr"
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    told = [(line.get("label"), line["step"]) for line in lines if line.get("label") != "reverse-text"]
    assert told == [("val", 0), (None, 1), (None, 2), ("val", 2)]
    assert (folder / "events.out.tfevents.0.envhub").stat().st_size > 1000


def check_rollouts(trainings: Any, report: dict[str, Any]) -> None:
    """Every row leads to its rollout, whose tokens know what training made of them."""
    stored, ratios = records(trainings, report), []
    rows = [row for segment in report["segments"] for row in segment["rows"]]
    assert [row["index"] for row in rows] == list(range(len(stored)))
    assert sum(row.get("admitted", True) for row in rows) == report["metrics"]["rollouts"]
    for row, record in zip(rows, stored, strict=True):
        assert (row["example"], row.get("reward")) == (record.example, record.reward)
        view = RolloutTokens.model_validate(record.extras[TOKENS_KEY])
        (turn,), (tokens,) = view.turns, [one.tokens for one in record.turns]
        assert tokens is not None
        if not turn.versions:  # the model ended its answer at once, as it rarely does: nothing of it is trained
            assert not row.get("admitted", True)
            continue
        assert len(turn.versions) == len(tokens.completion_ids)
        if row.get("admitted", True):
            assert turn.trained == (True,) * len(tokens.completion_ids)
            assert turn.advantages[0] == pytest.approx(row["advantage"], abs=1e-6)
            both = zip(turn.logprobs, tokens.logprobs, strict=True)
            ratios += [math.exp(learner - sampler) for learner, sampler in both]
    assert len(ratios) == report["metrics"]["trained_tokens"]
    assert fmean(ratios) == pytest.approx(report["metrics"]["ratio_mean"], rel=1e-5)


async def test_an_environment_that_fails_half_of_its_rollouts_trains_on_the_rest_and_says_so(trainings: Any) -> None:
    finish = await trainings.finish(**SMALL, env=[{"id": "alice/half-broken"}])
    log = trainings.hub.runs["r0"].log
    assert finish.state == "succeeded", log
    assert "rollouts of half-broken failed (most: " in log
    for step in trainings.steps():
        assert 0.1 < step.failed_share < 0.9
        assert step.trained_tokens > 0
        assert step.environments["half-broken"].failures["environment"] > 0
