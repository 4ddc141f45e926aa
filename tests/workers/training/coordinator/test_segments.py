"""A step waits on disk with everything that the hub will be told of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from envhub.packaging.segments import to_records
from envhub.protocol.evals.rollouts import Timing
from envhub.protocol.training.config import TrainingConfig
from envhub.protocol.training.runs import TOKENS_KEY, RolloutTokens

from tests.workers.training.coordinator.groups import group, record, turn
from workers.training.coordinator import segments
from workers.training.coordinator.batches import Batches
from workers.training.coordinator.plan import FinishedGroup
from workers.training.coordinator.segments import REPORT, KeptStep, keep_step, tables_of


def kept(folder: Path, *groups: FinishedGroup, batch_size: int = 0) -> KeptStep:
    """The report of a batch that these groups fill."""
    size = batch_size or sum(len(one.records) for one in groups)
    asked = {"model": "m", "env": [{"id": "a/a"}], "batch_size": size, "rollouts_per_example": 2}
    batches = Batches(TrainingConfig.model_validate(asked), {}, 64)
    for one in groups:
        batches.offer(one, 1)
    cut = batches.cut(1, 0)
    assert cut is not None
    keep_step(folder / "step", cut.metrics, cut.resolved)
    return KeptStep.model_validate_json((folder / "step" / REPORT).read_bytes())


def test_each_row_leads_to_its_rollout(tmp_path: Path) -> None:
    report = kept(tmp_path, group(0, [0.0, 1.0]), group(1, [0.25, 0.75]))
    (segment,) = report.segments
    groups = [list(to_records(table)) for table in tables_of(tmp_path / "step" / segment.file)]
    for row in segment.rows:
        found = groups[row.row_group][row.row]
        assert (found.example, found.reward) == (row.example, row.reward)
    assert [(row.group, row.advantage) for row in segment.rows] == [
        ("0", -0.5), ("0", 0.5), ("1", -0.25), ("1", 0.25)
    ]  # fmt: skip


def test_of_more_rollouts_than_a_report_holds_those_in_the_batch_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROLLOUTS", 2)
    left_out = [group(number, [1.0, 1.0]) for number in range(200)]
    report = kept(tmp_path, *left_out, *(group(number, [0.0, 1.0]) for number in range(200, 230)), batch_size=60)
    assert len(report.segments) == 128
    assert [row.admitted for segment in report.segments for row in segment.rows] == [True] * 60 + [False] * 196
    assert report.metrics.dropped == {"zero_signal": 400}


def test_the_token_view_follows_the_turns(tmp_path: Path) -> None:
    one = group(0, [0.0, 1.0])
    talk = [turn(0, [1], [2, 3], version=4), turn(1, [1, 2, 3, 9], [5], version=5)]
    records = (record(0, 0, 0.0, *talk), record(0, 1, 1.0, *talk))
    report = kept(tmp_path, one.model_copy(update={"records": records}))
    row = report.segments[0].rows[1]
    _, found = to_records(next(tables_of(tmp_path / "step" / report.segments[0].file)))
    first, second = RolloutTokens.model_validate(found.extras[TOKENS_KEY]).turns
    assert (first.trained, first.advantages, first.versions) == ((True, True), (0.5, 0.5), (4, 4))
    assert (second.trained, second.advantages, second.versions) == ((True,), (0.5,), (5,))
    assert (row.version_min, row.version_max, row.completion_tokens) == (4, 5, 3)


def test_the_texts_and_the_time_of_a_rollout_are_in_its_row(tmp_path: Path) -> None:
    one = group(0, [0.0, 1.0])
    told = {"task": {"answer": "42"}, "prompt": [{"role": "user", "content": "What\nis it?"}],
            "completion": [{"role": "assistant", "content": "It is 41."}], "timing": Timing(total_s=2.5)}  # fmt: skip
    records = tuple(found.model_copy(update=told) for found in one.records)
    row = kept(tmp_path, one.model_copy(update={"records": records})).segments[0].rows[0]
    assert (row.asked, row.answered, row.target, row.duration_s) == ("What is it?", "It is 41.", "42", 2.5)
