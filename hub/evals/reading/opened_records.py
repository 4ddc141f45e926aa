"""Keeps the rollouts that were read last, in memory.

A reader asks for many parts of one rollout (windows of turns, pictures, a search), and each would fetch and decode the
whole record again. Segments never change, so what is kept is never out of date. Callers check who may read a row.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any, Protocol, TypeVar

from envhub.packaging.conversation import agents_of
from envhub.protocol.evals.rollouts import RolloutRecord, TokenData, TurnAgent
from pydantic import BaseModel

from hub.evals.reading.transcript import Transcript, transcript

MOST_KEPT = 64 * 1024 * 1024  # bytes of memory in each process, for all records together
TOKEN_BYTES = 40  # of a number in a list: the object and the pointer to it


class StoredRow(Protocol):
    """The row of a rollout, of an evaluation or a training run; its segment is loaded."""

    segment: Any
    row_group: Any
    row: Any


Row = TypeVar("Row", bound=StoredRow)


@dataclass
class OpenedRecord:
    """A record that was read, and its transcripts. None is ever changed."""

    record: RolloutRecord
    _transcripts: dict[str, Transcript] = field(default_factory=dict)

    @cached_property
    def agents(self) -> Sequence[TurnAgent]:
        """Its agents' parts, if there are several."""
        return agents_of(self.record)

    def transcript(self, agent: str = "") -> Transcript:
        """Return the record's turns: those of an agent's part if there are several agents, by default the first's."""
        part = next((one.id for one in self.agents if one.id == agent), self.agents[0].id if self.agents else "")
        if part not in self._transcripts:
            self._transcripts[part] = transcript(self.record, part)
        return self._transcripts[part]


class OpenedRecords:
    """The records that were used last, up to a number of bytes."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = Lock()
        self._kept: OrderedDict[tuple[str, int, int], tuple[OpenedRecord, int]] = OrderedDict()
        self._bytes = 0

    def open(self, row: Row, read: Callable[[Row], RolloutRecord]) -> OpenedRecord:
        """Return the record of `row`, by `read` if it is not kept. Raises what `read` raises."""
        place = (row.segment.blob_id, row.row_group, row.row)
        with self._lock:
            if place in self._kept:
                self._kept.move_to_end(place)
                return self._kept[place][0]
        opened = OpenedRecord(read(row))
        size = memory_of(opened.record, self.most) * 2  # its transcript has about as much text
        with self._lock:
            if size <= self.most and place not in self._kept:
                self._kept[place] = opened, size
                self._bytes += size
            while self._bytes > self.most:
                self._bytes -= self._kept.popitem(last=False)[1][1]
        return opened


def memory_of(record: BaseModel, most: int) -> int:
    """Return about how many bytes a record takes in memory; the count ends once it exceeds `most`."""
    size, left = 0, [record]
    while left and size <= most:
        value: object = left.pop()
        size += sys.getsizeof(value)
        if isinstance(value, TokenData):
            size += TOKEN_BYTES * sum(len(numbers or ()) for numbers in vars(value).values())
        elif isinstance(value, BaseModel):
            left += vars(value).values()
        elif isinstance(value, dict):
            left += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            left += value
    return size


_OPENED = OpenedRecords(MOST_KEPT)
open_record = _OPENED.open
