"""The event file on the worker: a later life continues it, and TensorBoard reads it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from envhub.protocol.runs import RunState
from envhub.protocol.training.metrics import EvaluationPoint, StepMetrics

from tests.external_packages import output_of, python_with
from workers.training.exporters.interface import RunInfo
from workers.training.exporters.tensorboard import FILE, TensorBoard

AT = datetime(2026, 1, 2, tzinfo=UTC)
READER = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
found = EventAccumulator(sys.argv[1]); found.Reload()
print(json.dumps({tag: [[e.step, e.value] for e in found.Scalars(tag)] for tag in ("reward_mean", "eval/val")}))
"""


async def life(folder: Path, steps: int) -> bytes:
    exporter = TensorBoard(folder)
    await exporter.start(RunInfo("t", "n", {}))
    await exporter.evaluation(EvaluationPoint(label="val", step=0, reward_mean=0.25))
    for step in range(1, steps + 1):
        await exporter.step(StepMetrics(step=step, at=AT, reward_mean=step / 4))
    await exporter.finish(RunState.SUCCEEDED)
    await exporter.close()
    return (folder / FILE).read_bytes()


async def test_a_later_life_writes_the_same_bytes_and_goes_on(tmp_path: Path) -> None:
    first = await life(tmp_path, 2)
    (tmp_path / FILE).write_bytes(first + b"half a record")
    later = await life(tmp_path, 3)
    assert later.startswith(first)
    assert b"half" not in later


@pytest.mark.matrix  # installs TensorBoard
async def test_tensorboard_reads_it(tmp_path: Path) -> None:
    await life(tmp_path, 2)
    said = output_of(python_with("tensorboard", tmp_path), READER, str(tmp_path / FILE))
    assert json.loads(said) == {"reward_mean": [[1, 0.25], [2, 0.5]], "eval/val": [[0, 0.25]]}
