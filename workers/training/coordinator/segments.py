"""Keep a step's rollouts on disk, with index rows and token views, until the hub has them.

They wait as Arrow tables, one for each row group of the future segment. The segment itself is written once, when the
learner's log-probabilities are known.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa
from envhub.packaging.index_rows import index_rows
from envhub.packaging.segments import SCHEMA, places, row_groups
from envhub.protocol.base import Response
from envhub.protocol.evals.evaluations import IndexRow
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.training.metrics import StepMetrics
from envhub.protocol.training.runs import TOKENS_KEY, RolloutTokens, TokenTraining, TrainingIndexRow

from workers.training.coordinator.figures import Resolved
from workers.training.journal.durable import write_durably
from workers.training.samples.record import is_trainable
from workers.training.samples.rollout import Rollout
from workers.training.samples.sample import Sample

SEGMENT_ROLLOUTS, MOST_SEGMENTS = 128, 128  # rollouts per file, files per report
REPORT = "report.json"
SHARED = (
    *("outcome", "reward", "metrics", "failure_kind", "failure_message", "asked", "answered", "target", "turns"),
    *("duration_s", "row_group", "row"),
)
FAST = pa.ipc.IpcWriteOptions(compression="lz4")


class KeptSegment(Response):
    """A future segment: the file with its tables, and the index rows of its rollouts."""

    file: str
    rows: tuple[TrainingIndexRow, ...]


class KeptStep(Response):
    """The future report of a step to the hub."""

    metrics: StepMetrics
    segments: tuple[KeptSegment, ...] = ()


def keep_step(directory: Path, metrics: StepMetrics, resolved: Sequence[Resolved]) -> None:
    """Write the future report of a step; its report file is written last."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    rows = list(islice(rows_of(first_those_trained(resolved)), SEGMENT_ROLLOUTS * MOST_SEGMENTS))
    segments = []
    for first in range(0, len(rows), SEGMENT_ROLLOUTS):
        part = rows[first : first + SEGMENT_ROLLOUTS]
        tables = list(row_groups([record for record, _ in part]))
        file = f"rollouts-{first}.arrow"
        write_durably(directory / file, to_bytes(tables))
        segments.append(KeptSegment(file=file, rows=placed(part, first, tables)))
    kept = KeptStep(metrics=metrics, segments=tuple(segments))
    write_durably(directory / REPORT, kept.model_dump_json().encode())


def to_bytes(tables: Sequence[pa.Table]) -> bytes:
    """Write tables as the record batches of one Arrow file, which `tables_of` reads."""
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, SCHEMA, options=FAST) as writer:
        for table in tables:
            writer.write_batch(table.combine_chunks().to_batches()[0])
    return sink.getvalue()


def tables_of(path: Path) -> Iterator[pa.Table]:
    """Yield the tables of a waiting segment, one in memory at a time."""
    with pa.ipc.open_file(path) as file:
        for number in range(file.num_record_batches):
            yield pa.Table.from_batches([file.get_batch(number)])


def first_those_trained(resolved: Sequence[Resolved]) -> Sequence[Resolved]:
    """Return the groups in order if one report can hold them; otherwise those left out come last and are cut off."""
    count = sum(len(one.credited.finished.records) for one in resolved)
    too_many = count > SEGMENT_ROLLOUTS * MOST_SEGMENTS
    return sorted(resolved, key=lambda one: bool(one.dropped)) if too_many else resolved


def placed(
    part: Sequence[tuple[RolloutRecord, TrainingIndexRow]], first: int, tables: Sequence[pa.Table]
) -> tuple[TrainingIndexRow, ...]:
    """Return index rows with their place in the segment and the step."""
    slim = index_rows([record for record, _ in part], places(table.num_rows for table in tables))
    return tuple(
        row.model_copy(update={"index": first + place, **shared(made)})
        for place, ((_, row), made) in enumerate(zip(part, slim, strict=True))
    )


def shared(row: IndexRow) -> dict[str, object]:
    """Return the cleaned fields that an evaluation's index row has too."""
    return {name: getattr(row, name) for name in SHARED}


def rows_of(resolved: Sequence[Resolved]) -> Iterator[tuple[RolloutRecord, TrainingIndexRow]]:
    """Yield every rollout with its token view, and its index row."""
    for one in resolved:
        plan, candidate = one.credited.finished.plan, one.credited.candidate
        parts = zip(
            one.credited.finished.records, candidate.rollouts, candidate.samples, one.credited.advantages, strict=True
        )
        for record, rollout, samples, advantage in parts:
            versions = [int(version) for turn in rollout.turns for version in turn.versions]
            row = TrainingIndexRow(
                index=0,
                environment=plan.label,
                example=record.example,
                example_hash=record.example_hash,
                group=str(plan.number),
                outcome=record.outcome,
                advantage=advantage,
                admitted=not one.dropped and any(sample.trained for sample in samples),
                dropped=one.dropped or why_not_trained(one, rollout, samples),
                completion_tokens=rollout.sampled_tokens,
                version_min=min(versions, default=None),
                version_max=max(versions, default=None),
            )
            view = token_view(record, rollout, () if one.dropped else samples)
            yield record.model_copy(update={"extras": {**record.extras, TOKENS_KEY: view.model_dump()}}), row


def why_not_trained(group: Resolved, rollout: Rollout, samples: Sequence[Sample]) -> str:
    """Return why a rollout of an admitted group is not in the batch; empty if it is."""
    if any(sample.trained for sample in samples):
        return ""
    if not rollout.survived:
        return "failed"
    if rollout.truncated:
        return "truncated"
    return "filtered_or_overlong" if group.credited.counts.dropped_overlong else "filtered"


def token_view(record: RolloutRecord, rollout: Rollout, samples: Sequence[Sample]) -> RolloutTokens:
    """Return how training used the tokens of each policy turn."""
    made, number = [], 0
    for turn in record.turns:
        if turn.route != "policy":
            continue
        if not is_trainable(turn) or number >= len(rollout.turns):
            made.append(TokenTraining())
            continue
        count, advantages = len(rollout.turns[number].completion_ids), []
        for sample in samples:
            advantages += sample.advantages[sample.train & (sample.turns == number)].tolist()
        whole = len(advantages) == count
        made.append(
            TokenTraining(
                trained=(whole,) * count,
                advantages=tuple(advantages) if whole else (),
                versions=tuple(rollout.turns[number].versions.tolist()),
            )
        )
        number += 1
    return RolloutTokens(turns=tuple(made))
