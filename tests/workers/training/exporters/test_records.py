"""The records of a run: each once, whatever is told again."""

from __future__ import annotations

from pathlib import Path

import pytest
from envhub.protocol.training.metrics import EvaluationPoint, StepMetrics

from workers.training.exporters.records import Record, Records


def everything(records: Records) -> list[Record]:
    found, offset = [], 0
    while step := records.read(offset):
        record, offset = step
        found.append(record)
    return found


def test_what_is_told_twice_is_there_once(tmp_path: Path) -> None:
    records = Records(tmp_path / "t" / "metrics.jsonl")
    told = [EvaluationPoint(label="val", step=0), StepMetrics(step=1), EvaluationPoint(label="val", step=1)]
    for record in told * 2:
        records.append(record)
    later = Records(records.path)
    for record in [*told, StepMetrics(step=2)]:
        later.append(record)
    assert everything(later) == [*told, StepMetrics(step=2)]


@pytest.mark.parametrize("torn", [b'{"step": 2, "kl"', b"\x00\x00\n"])
def test_a_line_that_was_cut_off_is_written_again(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    Records(path).append(StepMetrics(step=1))
    with path.open("ab") as file:
        file.write(torn)
    later = Records(path)
    later.append(StepMetrics(step=2))
    assert everything(Records(path)) == [StepMetrics(step=1), StepMetrics(step=2)]
