"""Segments hold rollout records losslessly, and one can be read without the others."""

from __future__ import annotations

import io
import json
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from envhub.packaging import segments
from envhub.packaging.index_rows import index_rows
from envhub.packaging.segments import BadSegment, positions, read_rollout, read_segment, write_segment
from envhub.protocol.evals.evaluations import IndexRow
from envhub.protocol.evals.rollouts import (
    Outcome,
    RolloutFailure,
    RolloutRecord,
    SandboxCommand,
    SandboxUse,
    Timing,
    TokenData,
    Turn,
    Usage,
)
from envhub.protocol.runs import FailureKind


def _record(index: int, **changes: object) -> RolloutRecord:
    turn = Turn(
        index=0,
        protocol="chat",
        model="hub/tiny",
        request={"messages": [{"role": "user", "content": f"q{index} ü \ud800"}]},
        response={"choices": []},
        tokens=TokenData(prompt_ids=(1, 2, index), completion_ids=(7,), logprobs=(-0.1234567890123,)),
        usage=Usage(prompt_tokens=3, completion_tokens=1),
    )
    fields: dict[str, object] = {
        "example": index // 2,
        "rollout": index % 2,
        "example_hash": "ab",
        "outcome": Outcome.OK,
        "reward": index / 10,
        "metrics": {"exact": 1.0},
        "weights": {"exact": 0.5},
        "task": {"answer": "4", "info": {"a": [1, None]}},
        "prompt": [{"role": "user", "content": "q"}],
        "completion": [{"role": "assistant", "content": "a"}],
        "turns": (turn, turn.model_copy(update={"index": 1, "tokens": None})),
        "usage": Usage(prompt_tokens=3, completion_tokens=1),
        "judge_usage": Usage(prompt_tokens=5),
        "timing": Timing(total_s=1.5, generation_s=1.0, scoring_s=0.25),
        "extras": {"columns": ["x"]},
        "library": {"example_id": index},
    }
    return RolloutRecord.model_validate(fields | changes)


def _index(records: list[RolloutRecord]) -> tuple[IndexRow, ...]:
    return index_rows(records, positions(write_segment(records)))


def test_every_record_survives_the_round_trip_unchanged() -> None:
    failed = RolloutFailure(kind=FailureKind.POLICY, type="E", message="\ud800 no", traceback="t")
    command = SandboxCommand(argv=("sh", "-c", "\ud800"), cwd="/", started_s=1, seconds=2, exit_code=0, output="x")
    sandbox = SandboxUse(
        id="a", image="b", state="stopped", cpus=1, memory_mb=5, created_s=0, seconds=9, commands=(command,)
    )
    records = [
        *(_record(index) for index in range(20)),
        _record(21, sandboxes=(sandbox,)),
        _record(20, outcome=Outcome.FAILED, reward=None, failure=failed, turns=(), prompt=None, completion="text"),
        RolloutRecord(example=0, rollout=0, example_hash="", outcome=Outcome.TRUNCATED),
    ]
    assert list(read_segment(io.BytesIO(write_segment(records)))) == records


def test_a_file_from_before_there_were_sandboxes_is_read() -> None:
    sink = io.BytesIO()
    pq.write_table(segments.to_table([_record(0)]).drop_columns(["sandboxes"]), sink)
    assert read_rollout(sink, 0, 0) == _record(0)


def test_a_turn_without_tokens_differs_from_one_with_empty_tokens() -> None:
    empty = _record(0).turns[0].model_copy(update={"tokens": TokenData()})
    record = _record(0, turns=(empty, empty.model_copy(update={"tokens": None})))
    read = read_rollout(io.BytesIO(write_segment([record])), 0, 0)
    assert [turn.tokens for turn in read.turns] == [TokenData(), None]


def test_one_rollout_is_read_at_its_position() -> None:
    records = [_record(index) for index in range(64)]
    content = write_segment(records)
    assert read_rollout(io.BytesIO(content), *positions(content)[43]) == records[43]


def test_each_of_many_large_rollouts_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MAX_ROLLOUT_BYTES", 600_000)
    monkeypatch.setattr(segments, "FULL_GROUP_BYTES", 300_000)
    records = [_record(index, library={"log": f"{index}" * size}) for index, size in enumerate((200_000, 10) * 5)]
    content = write_segment(records)
    assert [read_rollout(io.BytesIO(content), *place) for place in positions(content)] == records


@pytest.mark.parametrize(("size", "groups"), [(0, [32, 8]), (10_000, [23, 17]), (100_000, [8] * 5)])
def test_reading_one_rollout_decodes_one_row_group_only(size: int, groups: list[int]) -> None:
    records = [_record(index, library={"log": "x" * size}) for index in range(sum(groups))]
    metadata = pq.read_metadata(io.BytesIO(write_segment(records)))
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == groups


@pytest.mark.parametrize(("group", "row"), [(9, 0), (-1, 0), (0, 8), (0, -1)])
def test_a_row_outside_the_segment_is_refused(group: int, row: int) -> None:
    with pytest.raises(BadSegment):
        read_rollout(io.BytesIO(write_segment([_record(0)])), group, row)


def test_a_file_that_is_not_parquet_is_refused() -> None:
    with pytest.raises(BadSegment, match="not a Parquet file"):
        segments.count_rows(io.BytesIO(b"PAR1 nothing PAR1"))


def test_a_parquet_file_with_other_columns_is_refused() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": [1]}), sink)
    with pytest.raises(BadSegment, match="columns"):
        segments.count_rows(sink)


@pytest.mark.parametrize(
    ("column", "value"),
    [("outcome", "splendid"), ("task", "{"), ("task", None), ("prompt", "[" * 100_000), ("turns", ["{}"])],
)
def test_a_row_that_is_no_record_is_refused(column: str, value: object) -> None:
    row = segments.to_table([_record(0)]).to_pylist()[0] | {column: value}
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row], schema=segments.SCHEMA), sink)
    with pytest.raises(BadSegment, match="not a rollout record"):
        read_rollout(sink, 0, 0)


def test_a_row_group_over_the_budget_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = io.BytesIO(write_segment([_record(0)]))
    monkeypatch.setattr(segments, "MAX_GROUP_BYTES", 10)
    with pytest.raises(BadSegment, match="too large"):
        read_rollout(data, 0, 0)


def test_one_rollout_has_a_smaller_budget_than_a_whole_file(monkeypatch: pytest.MonkeyPatch) -> None:
    data = io.BytesIO(write_segment([_record(0)]))
    assert segments.MAX_ROLLOUT_BYTES < segments.MAX_GROUP_BYTES
    monkeypatch.setattr(segments, "MAX_ROLLOUT_BYTES", 10)
    assert list(read_segment(data)) == [_record(0)]
    with pytest.raises(BadSegment, match="too large"):
        read_rollout(data, 0, 0)


def test_the_largest_rollout_that_a_worker_records_can_be_read() -> None:
    """64 MiB of recorded calls beside 64 MiB of the runner's own record."""
    limit = 64 * 1024**2
    turn = _record(0).turns[0].model_copy(update={"request": {"prompt": "a" * limit}})
    large = _record(0, turns=(turn,), library={"log": "b" * limit})
    assert read_rollout(io.BytesIO(write_segment([large, _record(1)])), 0, 0) == large


def test_one_text_named_a_million_times_is_not_unfolded() -> None:
    table = segments.to_table([_record(0)])
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000_000, pa.int32()), pa.array(["x" * 1_000_000]))
    turns = pa.ListArray.from_arrays(pa.array([0, 1_000_000], pa.int32()), texts)
    sink = io.BytesIO()
    index = table.schema.get_field_index("turns")
    pq.write_table(table.set_column(index, "turns", turns), sink, compression="zstd", store_schema=False)
    assert len(sink.getvalue()) < 20_000
    with pytest.raises(BadSegment, match="too large"):
        list(read_segment(io.BytesIO(sink.getvalue())))


def test_datasets_loads_a_segment(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(write_segment([_record(index) for index in range(10)]))
    loaded = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "a.parquet"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert loaded[3]["reward"] == 0.3
    assert json.loads(loaded[3]["prompt"]) == [{"role": "user", "content": "q"}]
    assert loaded[3]["completion_ids"] == [[7], None]


def test_an_index_row_points_at_its_record() -> None:
    rows = _index([_record(index) for index in range(34)])
    assert (rows[33].example, rows[33].rollout, rows[33].row_group, rows[33].row, rows[33].turns) == (16, 1, 1, 1, 2)


def test_a_reward_that_is_not_a_number_is_a_verifier_failure() -> None:
    (row,) = _index([_record(0, reward=float("nan"), metrics={"bad": float("inf"), "good": 1.0})])
    assert (row.outcome, row.reward, row.failure_kind) == (Outcome.FAILED, None, FailureKind.VERIFIER)
    assert row.metrics == {"good": 1.0}


def test_a_failed_rollout_never_brings_a_reward_into_the_index() -> None:
    (row,) = _index([_record(0, outcome=Outcome.FAILED, reward=1.0)])
    assert (row.reward, row.failure_kind) == (None, FailureKind.ENVIRONMENT)


@pytest.mark.parametrize(("message", "shown"), [("'city'", "KeyError: 'city'"), ("exact: KeyError", "exact: KeyError")])
def test_an_index_row_says_of_what_type_a_failure_is(message: str, shown: str) -> None:
    failure = RolloutFailure(kind=FailureKind.ENVIRONMENT, type="KeyError", message=message)
    (row,) = _index([_record(0, outcome=Outcome.FAILED, failure=failure)])
    assert row.failure_message == shown


def test_text_that_postgres_cannot_hold_is_cleaned() -> None:
    failure = RolloutFailure(kind=FailureKind.POLICY, type="E", message="a\x00b\ud800" + "x" * 1000)
    (row,) = _index([_record(0, outcome=Outcome.FAILED, failure=failure)])
    assert row.failure_message.startswith("E: ab?x")
    assert len(row.failure_message) == 300


@pytest.mark.parametrize(
    ("completion", "turns"),
    [
        ([{"role": "assistant"}, {"role": "tool"}, {"role": "assistant"}, {"role": "user"}], 2),
        ("text of a completion model", 1),
        ("", 0),
        ([], 0),
        (None, 0),
    ],
)
def test_a_rollout_that_was_saved_without_calls_has_the_turns_of_its_conversation(
    completion: object, turns: int
) -> None:
    (row,) = _index([_record(0, completion=completion, turns=())])
    assert row.turns == turns
