"""An exporter's failures: repeated within bounds, told, and never the run's."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from envhub.protocol.runs import RunState
from envhub.protocol.training.metrics import EvaluationPoint, StepMetrics

from workers.training.exporters.follow import Follower
from workers.training.exporters.interface import ExportFailed, ExportRefused, RunInfo
from workers.training.exporters.records import Records

RUN = RunInfo("t", "n", {})


@dataclass
class Scripted:
    """Raises `failures` one after the other, then works."""

    failures: list[Exception] = field(default_factory=list)
    got: list[object] = field(default_factory=list)
    name: str = "scripted"

    async def start(self, run: RunInfo) -> None:
        self.got.append("start")

    async def step(self, metrics: StepMetrics) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.got.append(metrics.step)

    async def evaluation(self, point: EvaluationPoint) -> None:
        self.got.append(point.label)

    async def finish(self, state: RunState) -> None:
        self.got.append(state)

    async def close(self) -> None:
        self.got.append("close")


async def followed(tmp_path: Path, exporter: Scripted, log: list[str]) -> None:
    records = Records(tmp_path / "metrics.jsonl")
    follower = Follower(exporter, records, log.append, attempts=3, pause_s=0.0)
    task = asyncio.create_task(follower.run(RUN))
    for record in (StepMetrics(step=1), EvaluationPoint(label="val", step=1), StepMetrics(step=2)):
        records.append(record)
        await asyncio.sleep(0)
    follower.end(RunState.SUCCEEDED)
    await task


async def test_everything_arrives_in_order_after_a_failure(tmp_path: Path) -> None:
    exporter, log = Scripted([ExportFailed("busy"), ExportFailed("busy")]), list[str]()
    await followed(tmp_path, exporter, log)
    assert exporter.got == ["start", 1, "val", 2, RunState.SUCCEEDED, "close"]
    assert log == ["export to scripted waits: busy", "export to scripted goes on"]


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        ([ExportFailed("away")] * 3, "away (3 attempts)"),
        ([ExportRefused("no key")], "no key"),
        ([KeyError("run")], "a fault of the worker: KeyError"),
    ],
)
async def test_an_end_is_told_and_raises_nothing(tmp_path: Path, failures: list[Exception], said: str) -> None:
    exporter, log = Scripted(list(failures)), list[str]()
    await followed(tmp_path, exporter, log)
    assert exporter.got == ["start", "close"]
    assert said in log[-1]
    assert "The run goes on" in log[-1]
