"""The learner's log-probabilities find their tokens in a waiting step's segments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from envhub.packaging.segments import positions, read_segment
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.training.config import TrainingConfig
from envhub.protocol.training.runs import TOKENS_KEY, RolloutTokens, StepSegment

from tests.workers.training.coordinator.groups import group, record, turn
from workers.training.coordinator.batches import Batches
from workers.training.coordinator.plan import FinishedGroup
from workers.training.coordinator.segments import REPORT, KeptStep, keep_step
from workers.training.learner.token_logprobs import write_logprobs
from workers.training.samples.sample import Sample
from workers.training.supervise.token_logprobs import write_segments


def waiting(folder: Path, *groups: FinishedGroup, **config: object) -> tuple[KeptStep, tuple[Sample, ...]]:
    """The waiting report of a batch that these groups fill, and its samples."""
    size = sum(len(one.records) for one in groups)
    asked = {"model": "m", "env": [{"id": "a/a"}], "batch_size": size, "rollouts_per_example": 2, **config}
    batches = Batches(TrainingConfig.model_validate(asked), {}, 64)
    for one in groups:
        batches.offer(one, 1)
    cut = batches.cut(1, 0)
    assert cut is not None
    keep_step(folder / "step", cut.metrics, cut.resolved)
    return KeptStep.model_validate_json((folder / "step" / REPORT).read_bytes()), cut.samples


def records_of(folder: Path, segments: tuple[StepSegment, ...]) -> list[RolloutRecord]:
    """What the hub would be told."""
    return [one for segment in segments for one in read_segment(folder / "step" / segment.sha256)]


def view(one: RolloutRecord) -> RolloutTokens:
    return RolloutTokens.model_validate(one.extras[TOKENS_KEY])


def numbered(samples: tuple[Sample, ...]) -> np.ndarray:
    """Another number for each trained token, in their order."""
    return -np.arange(sum(one.trained for one in samples), dtype=np.float32)


def test_each_trained_turn_gets_its_own(tmp_path: Path) -> None:
    talk = [turn(0, [1], [2, 3]), turn(1, [7, 7], [8]), turn(2, [1, 2, 3, 9], [5])]  # the second is another sample
    records = (record(0, 0, 0.0, *talk), record(0, 1, 1.0, *talk))
    one = group(0, [0.0, 1.0]).model_copy(update={"records": records})
    report, samples = waiting(tmp_path, one, group(1, [0.0, 1.0]))
    write_logprobs(tmp_path / "logprobs", samples, numbered(samples))
    told = write_segments(tmp_path / "step", report, tmp_path / "logprobs")
    found = [[turn.logprobs for turn in view(one).turns] for one in records_of(tmp_path, told)]
    # samples: turns 0 and 2 of a rollout (tokens 0, 1 and 2), then turn 1 (token 3)
    assert found == [
        [(0.0, -1.0), (-3.0,), (-2.0,)],
        [(-4.0, -5.0), (-7.0,), (-6.0,)],
        [(-8.0, -9.0, -10.0)],
        [(-11.0, -12.0, -13.0)],
    ]


def test_nothing_else_of_the_records_changes_and_the_step_keeps_waiting(tmp_path: Path) -> None:
    kept, samples = waiting(tmp_path, *(group(number, [0.0, 1.0]) for number in range(5)))
    before = write_segments(tmp_path / "step", kept, tmp_path / "none")
    write_logprobs(tmp_path / "logprobs", samples, numbered(samples))
    told, again = (write_segments(tmp_path / "step", kept, tmp_path / "logprobs") for _ in range(2))
    assert told == again != before
    assert [segment.rows for segment in told] == [segment.rows for segment in kept.segments]
    after = records_of(tmp_path, told)
    assert [one.model_copy(update={"extras": {}}) for one in after] == [
        one.model_copy(update={"extras": {}}) for one in records_of(tmp_path, before)
    ]


def test_each_row_leads_to_its_rollout(tmp_path: Path) -> None:
    kept, _ = waiting(tmp_path, *(group(number, [0.0, 1.0]) for number in range(5)))
    (segment,) = write_segments(tmp_path / "step", kept, tmp_path / "none")
    places = positions((tmp_path / "step" / segment.sha256).read_bytes())
    assert [(row.row_group, row.row) for row in segment.rows] == places


def test_what_was_not_trained_has_none_and_says_why(tmp_path: Path) -> None:
    loops = record(0, 1, 1.0, turn(0, [1, 2], [3, 4, 5]))
    tokens = loops.turns[0].tokens
    assert tokens is not None
    sure = tokens.model_copy(update={"logprobs": (-1e-6,) * 3})
    loops = loops.model_copy(update={"turns": (loops.turns[0].model_copy(update={"tokens": sure}),)})
    one = group(0, [0.0, 1.0])
    filters = [{"type": "repetition", "enforce": True, "window": 2}]
    report, samples = waiting(
        tmp_path, one.model_copy(update={"records": (one.records[0], loops)}), post_batch_filters=filters
    )
    write_logprobs(tmp_path / "logprobs", samples, numbered(samples))
    told = write_segments(tmp_path / "step", report, tmp_path / "logprobs")
    assert [(row.admitted, row.dropped) for row in told[0].rows] == [(True, ""), (False, "filtered")]
    kept, filtered = (view(one).turns[0] for one in records_of(tmp_path, told))
    assert (kept.trained, len(kept.logprobs)) == ((True,) * 3, 3)
    assert (filtered.trained, filtered.logprobs) == ((False,) * 3, ())


def test_without_the_learners_word_the_step_is_told_as_it_is(tmp_path: Path) -> None:
    kept, _ = waiting(tmp_path, group(0, [0.0, 1.0]))
    told = records_of(tmp_path, write_segments(tmp_path / "step", kept, tmp_path / "none"))
    assert [turn.logprobs for one in told for turn in view(one).turns] == [(), ()]
