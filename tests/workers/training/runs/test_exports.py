"""A run exports its metrics while it lasts, across a restart, and whatever becomes of an exporter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from envhub.protocol.models.catalog import OutboundPolicy

from tests.fakes.mlflow import FakeMlflow
from tests.workers.training.runs.test_run import SMALL

pytestmark = [pytest.mark.sandbox, pytest.mark.torch]


async def test_a_run_exports_every_step_and_survives_a_broken_exporter(trainings: Any) -> None:
    async with FakeMlflow() as server:
        exporters = {"mlflow": {"tracking_uri": server.uri}, "tensorboard": True, "wandb": {"project": "p"}}
        payload = trainings.payload(**SMALL, exporters=exporters, val={"num_examples": 2, "interval": 2})
        payload = payload.model_copy(update={"outbound": OutboundPolicy(allow_loopback=True)})
        run = trainings.queue(payload)
        finish = await trainings.run(run)
        assert finish.state == "succeeded", run.log
        assert "export to W&B has ended: the secret WANDB_API_KEY is missing" in run.log
        (external,) = server.runs
        assert external["info"]["status"] == "FINISHED"
        kl = {row["step"]: row["value"] for row in external["history"]["kl"]}
        assert kl == {step.step: step.kl for step in trainings.steps()}
        assert [row["step"] for row in external["history"]["eval/val"]] == [0, 2]
    folder = trainings.data / "metrics" / "tr"
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [(line.get("label"), line["step"]) for line in lines] == [("val", 0), (None, 1), (None, 2), ("val", 2)]
    assert (folder / "events.out.tfevents.0.envhub").stat().st_size > 1000
