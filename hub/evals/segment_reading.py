"""Reads several rollouts, fetching each segment once: a page of a list is normally of one or two segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, TypeVar

from envhub.protocol.evals.rollouts import RolloutRecord

from hub.storage.queries import local_or_temp_path


class InSegment(Protocol):
    """The row of a rollout; its segment is loaded."""

    pk: Any
    segment: Any


Row = TypeVar("Row", bound=InSegment)


def read_together(rows: Sequence[Row], read: Callable[[Path, Row], RolloutRecord]) -> list[RolloutRecord]:
    """Return `read(the segment's file, row)` for each row, in their order."""
    found: dict[Any, RolloutRecord] = {}
    for blob, together in groupby(sorted(rows, key=_blob_of), key=_blob_of):
        with local_or_temp_path(blob) as path:
            found |= {row.pk: read(path, row) for row in together}
    return [found[row.pk] for row in rows]


def _blob_of(row: InSegment) -> str:
    return str(row.segment.blob_id)
