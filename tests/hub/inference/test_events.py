"""Streams are cut between events, wherever the network cuts them."""

from __future__ import annotations

import pytest

from hub.inference import events
from hub.inference.events import Cutter, EventTooLong, split_events

STREAM = b'data: {"a":1}\n\n: ping\n\ndata: 2\r\n\r\ndata: 3\r\ndata: 4\r\n\r\n'


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_only_whole_events_are_given_however_the_stream_is_cut(size: int) -> None:
    cutter, given = Cutter(), []
    for start in range(0, len(STREAM), size):
        given += split_events(cutter.add(STREAM[start : start + size]))
    assert given == [b'data: {"a":1}\n\n', b": ping\n\n", b"data: 2\r\n\r\n", b"data: 3\r\ndata: 4\r\n\r\n"]
    assert not cutter.rest


def test_half_an_event_is_held_back() -> None:
    cutter = Cutter()
    assert cutter.add(b"data: 1\n\ndata: {") == b"data: 1\n\n"
    assert cutter.rest == b"data: {"


def test_an_event_without_an_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "EVENT_LIMIT", 100)
    cutter = Cutter()
    cutter.add(b"x" * 100)
    with pytest.raises(EventTooLong):
        cutter.add(b"x")
