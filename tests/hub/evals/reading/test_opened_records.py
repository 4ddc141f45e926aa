"""Records that readers opened last are kept in memory, up to a number of bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

from envhub.protocol.evals.rollouts import RolloutRecord, TokenData, Turn

from hub.evals.reading.opened_records import OpenedRecords, memory_of
from tests.factories.evals import make_record


@dataclass
class _Segment:
    blob_id: str = "0" * 64


@dataclass
class _Row:
    row: int
    row_group: int = 0
    segment: _Segment = field(default_factory=_Segment)


class _Files:
    """Counts what is read. Each record has a text of this many characters."""

    def __init__(self, characters: int) -> None:
        self.characters = characters
        self.read: list[int] = []

    def __call__(self, row: _Row) -> RolloutRecord:
        self.read.append(row.row)
        return make_record(example=row.row, completion=[{"role": "assistant", "content": "x" * self.characters}])


def test_a_record_is_read_once_for_all_its_parts() -> None:
    kept, files = OpenedRecords(1_000_000), _Files(1000)
    first, again = kept.open(_Row(3), files), kept.open(_Row(3), files)
    assert files.read == [3]
    assert first is again
    assert first.transcript() is again.transcript()
    assert first.record.example == 3


def test_the_same_place_of_another_segment_is_another_record() -> None:
    kept, files = OpenedRecords(1_000_000), _Files(1000)
    kept.open(_Row(3), files)
    kept.open(_Row(3, row_group=1), files)
    kept.open(_Row(3, segment=_Segment("1" * 64)), files)
    assert files.read == [3, 3, 3]


def test_those_used_longest_ago_make_room() -> None:
    kept, files = OpenedRecords(500_000), _Files(100_000)
    for row in (0, 1, 0, 2, 0, 1):
        kept.open(_Row(row), files)
    assert files.read == [0, 1, 2, 1]


def test_a_record_that_is_too_large_is_read_each_time_and_displaces_nothing() -> None:
    kept, small, large = OpenedRecords(500_000), _Files(100_000), _Files(300_000)
    kept.open(_Row(0), small)
    kept.open(_Row(1), large)
    kept.open(_Row(1), large)
    kept.open(_Row(0), small)
    assert (small.read, large.read) == ([0], [1, 1])


def test_memory_counts_texts_many_small_parts_and_tokens() -> None:
    most = 10**9
    empty = memory_of(make_record(completion=""), most)
    assert memory_of(make_record(completion="x" * 100_000), most) >= empty + 100_000
    assert memory_of(make_record(extras={"parts": [[] for _ in range(10_000)]}), most) > empty + 10_000 * 56
    assert memory_of(make_record(extras={f"name {number}": 0 for number in range(10_000)}), most) > empty + 10_000 * 50
    tokens = TokenData(prompt_ids=tuple(range(1000, 11_000)), completion_ids=(1,), logprobs=(0.0,))
    turn = Turn(index=0, protocol="chat", model="m", request={}, response={}, tokens=tokens)
    assert memory_of(make_record(turns=(turn,)), most) > empty + 10_000 * 36


def test_counting_ends_beyond_the_limit() -> None:
    assert memory_of(make_record(extras={"parts": [[] for _ in range(1_000_000)]}), 10_000) < 20_000_000
