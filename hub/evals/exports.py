"""Exports: every rollout that the index points at, filtered, as one Parquet file or as JSON lines, streamed.

One row group of a segment (a few rollouts) is in memory at a time. The columns are those of
envhub.packaging.segments, so that `datasets.load_dataset("parquet", data_files=...)` reads the file; prompts and
completions are JSON text in it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from enum import StrEnum

import pyarrow as pa
import pyarrow.parquet as pq
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from envhub.packaging.segments import SCHEMA, read_row_groups, to_records

from hub.core.errors import Invalid
from hub.core.http import as_json
from hub.evals.models import Evaluation, RolloutIndex, Segment
from hub.evals.queries import filter_rollouts
from hub.storage.downloads import stream_pieces
from hub.storage.queries import local_or_temp_path


class ExportFormat(StrEnum):
    """What an export may look like."""

    PARQUET = "parquet"
    JSONL = "jsonl"


_TYPES = {ExportFormat.PARQUET: "application/vnd.apache.parquet", ExportFormat.JSONL: "application/x-ndjson"}


def export_response(
    request: HttpRequest,
    evaluation: Evaluation,
    *,
    format: str,
    min_reward: float | None = None,
    max_reward: float | None = None,
) -> StreamingHttpResponse:
    """The export as a download, streamed under ASGI and WSGI alike. Raises Invalid for an unknown format."""
    try:
        chosen = ExportFormat(format)
    except ValueError as error:
        raise Invalid(f"format is one of {', '.join(ExportFormat)}", fields={"format": format[:100]}) from error
    rows = filter_rollouts(evaluation, min_reward=min_reward, max_reward=max_reward)
    pieces = export_pieces(rows, chosen)
    filename = f"evaluation-{evaluation.pk}.{chosen.value}"
    return stream_pieces(request, pieces, content_type=_TYPES[chosen], filename=filename)


def export_pieces(rows: QuerySet[RolloutIndex], format: ExportFormat) -> Iterator[bytes]:
    """The file in pieces; `rows` are those of one evaluation."""
    tables = _tables(rows)
    if format is ExportFormat.PARQUET:
        yield from parquet_pieces(tables, SCHEMA)
        return
    for table in tables:
        for record in to_records(table):
            yield as_json(record).encode() + b"\n"
        del table


def parquet_pieces(tables: Iterator[pa.Table], schema: pa.Schema) -> Iterator[bytes]:
    """One Parquet file of all tables, a piece a table. Without statistics, which would hold copies of long texts."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema, compression="zstd", write_statistics=False) as writer:
        for table in tables:
            writer.write_table(table)
            del table  # before the next one is read
            yield _drain(sink)
    yield _drain(sink)


def _drain(sink: io.BytesIO) -> bytes:
    data = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return data


def _tables(rows: QuerySet[RolloutIndex]) -> Iterator[pa.Table]:
    """One table for each row group that still has rows after filtering, the oldest segment's first."""
    segment_ids = rows.order_by().values("segment_id").distinct()
    for segment in Segment.objects.filter(pk__in=segment_ids).order_by("pk").iterator():
        wanted: dict[int, list[int]] = {}
        places = rows.filter(segment=segment).order_by("row_group", "row").values_list("row_group", "row")
        for row_group, row in places:
            wanted.setdefault(row_group, []).append(row)
        with local_or_temp_path(segment.blob_id) as path:
            groups = read_row_groups(path, wanted)
            for chosen in wanted.values():
                table = next(groups)
                yield pa.concat_tables(table.slice(row, 1) for row in chosen)  # copies nothing
                del table
