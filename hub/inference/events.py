"""Server-sent events on their way to a caller: whole ones, so that an error can follow wherever a stream breaks."""

from __future__ import annotations

import re
from itertools import pairwise

EVENT_LIMIT = 16 * 1024**2  # bytes of one event
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class EventTooLong(Exception):
    """More than EVENT_LIMIT bytes without an end."""

    def __init__(self) -> None:
        super().__init__(f"an event of more than {EVENT_LIMIT} bytes")


class Cutter:
    """Cuts a stream behind its last whole event; `rest` is what follows that."""

    def __init__(self) -> None:
        self.rest = bytearray()

    def add(self, piece: bytes) -> bytes:
        """The events that `piece` completes, with their ends. Raises EventTooLong."""
        if not self.rest and piece.endswith(b"\n\n"):  # nearly always
            return piece
        searched, end = max(0, len(self.rest) - 3), 0
        self.rest += piece
        for mark in _END.finditer(self.rest, searched):
            end = mark.end()
        events = bytes(self.rest[:end])
        del self.rest[:end]
        if len(self.rest) > EVENT_LIMIT:
            raise EventTooLong
        return events


def split_events(events: bytes) -> list[bytes]:
    """Whole events, one by one, with their ends."""
    ends = [0, *(mark.end() for mark in _END.finditer(events))]
    return [events[start:end] for start, end in pairwise(ends)]
