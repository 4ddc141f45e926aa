"""Exports are what the index points at, readable by `datasets`, streamed row group by row group."""

from __future__ import annotations

import io
import json
from pathlib import Path

import datasets
import pyarrow.parquet as pq
import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient, Client
from envhub.packaging import segments
from envhub.packaging.segments import SCHEMA, read_segment
from envhub.protocol.evals.rollouts import RolloutRecord

from hub.accounts.models import User
from hub.core.errors import HubError
from hub.evals.exports import ExportFormat, export_pieces
from hub.evals.models import Evaluation, RolloutIndex
from hub.evals.queries import filter_rollouts, get_rollout, read_record
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.evals import create_hosted, make_failure, make_record, make_records, store

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    return make_user("alice")


@pytest.fixture
def evaluation(alice: User) -> Evaluation:
    """Two segments, the first of two row groups; rollout 0.1 failed in it and was made again in the second."""
    evaluation, long = create_hosted(alice), {"log": "x" * 40_000}
    wrong = [make_record(1, number, 0.0, library=long) for number in range(12)]
    store(evaluation, [make_record(0, 0, 1.0), make_failure(0, 1), *wrong])
    store(evaluation, [make_record(0, 1, 0.5), make_record(2, 0, 0.25)])
    return evaluation


def _records(evaluation: Evaluation, **filters: float) -> list[RolloutRecord]:
    pieces = export_pieces(filter_rollouts(evaluation, **filters), ExportFormat.PARQUET)  # type: ignore[arg-type]
    return list(read_segment(io.BytesIO(b"".join(pieces))))


def test_an_export_has_every_rollout_once_as_the_index_has_it(evaluation: Evaluation) -> None:
    rewards = {(r.example, r.rollout): r.reward for r in _records(evaluation)}
    assert len(rewards) == 15 == len(_records(evaluation))
    assert (rewards[0, 1], rewards[2, 0]) == (0.5, 0.25)


def test_an_export_is_filtered_by_reward(evaluation: Evaluation) -> None:
    assert {r.reward for r in _records(evaluation, min_reward=0.25, max_reward=0.5)} == {0.25, 0.5}


def test_an_export_without_rollouts_is_an_empty_file_with_its_columns(evaluation: Evaluation) -> None:
    pieces = export_pieces(filter_rollouts(evaluation, min_reward=9), ExportFormat.PARQUET)
    table = pq.read_table(io.BytesIO(b"".join(pieces)))
    assert (table.num_rows, table.schema.equals(SCHEMA)) == (0, True)


def test_an_export_holds_one_row_group_at_a_time(evaluation: Evaluation) -> None:
    pieces = export_pieces(filter_rollouts(evaluation), ExportFormat.PARQUET)
    first = next(pieces)
    assert first.startswith(b"PAR1")
    assert len(list(pieces)) == 3  # the second row group, the second segment, the footer


def test_a_filtered_export_reads_no_row_group_without_a_wanted_row(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    real = segments._read_group
    monkeypatch.setattr(segments, "_read_group", lambda *given: read.append(given[1]) or real(*given))
    (best,) = _records(evaluation, min_reward=1.0)
    assert (best.example, read) == (0, [0, 0])  # the first of the export, then that of this test's own reading


def test_datasets_loads_the_export_that_the_api_serves(alice: User, evaluation: Evaluation, tmp_path: Path) -> None:
    url = f"/api/v1/evaluations/{evaluation.pk}/export?format=parquet&min_reward=0.5"
    response = Client().get(url, headers=bearer(make_token(alice)))
    (tmp_path / "e.parquet").write_bytes(response.getvalue())
    loaded = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "e.parquet"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert sorted(loaded["reward"]) == [0.5, 1.0]
    assert json.loads(loaded[0]["completion"]) == [{"role": "assistant", "content": "answer"}]
    assert loaded[0]["completion_ids"] == [[3]]


def test_json_lines_hold_whole_records(alice: User, evaluation: Evaluation) -> None:
    url = f"/api/v1/evaluations/{evaluation.pk}/export?format=jsonl&min_reward=0.5"
    response = Client().get(url, headers=bearer(make_token(alice)))
    records = [RolloutRecord.model_validate_json(line) for line in response.getvalue().splitlines()]
    assert make_record(0, 0, 1.0) in records
    assert response["Content-Disposition"].startswith("attachment")


@pytest.mark.django_db(transaction=True)
async def test_the_server_that_runs_in_production_streams_it_too(alice: User, evaluation: Evaluation) -> None:
    url = f"/api/v1/evaluations/{evaluation.pk}/export?format=jsonl"
    response = await AsyncClient().get(url, headers=bearer(await sync_to_async(make_token)(alice)))
    pieces = [piece async for piece in response.streaming_content]  # type: ignore[attr-defined]
    assert len(pieces) == 15
    assert b"".join(pieces).count(b"\n") == 15
    await sync_to_async(connections.close_all)()  # of the thread that served the request


def test_an_unknown_format_is_refused(alice: User, evaluation: Evaluation) -> None:
    url = f"/api/v1/evaluations/{evaluation.pk}/export?format=csv"
    assert Client().get(url, headers=bearer(make_token(alice))).status_code == 422


def test_one_record_is_read_from_its_segment(evaluation: Evaluation) -> None:
    assert read_record(get_rollout(evaluation, 0, 0)) == make_record(0, 0, 1.0)


def test_a_segment_that_holds_another_rollout_is_not_believed(evaluation: Evaluation) -> None:
    RolloutIndex.objects.filter(example=1, rollout=0).update(row=0)
    with pytest.raises(HubError) as caught:
        read_record(get_rollout(evaluation, 1, 0))
    assert caught.value.code == "bad_segment"


def test_records_of_one_segment_come_in_its_order(evaluation: Evaluation) -> None:
    assert [(r.example, r.rollout) for r in _records(evaluation)][:3] == [(0, 0), (1, 0), (1, 1)]
    assert make_records([1.0])[0].reward == 1.0
