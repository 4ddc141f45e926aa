"""Filters the newest lines of a training run's log by the process that wrote them. Pure, except for reading the log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from envhub.protocol.training.log import ALL, RUN, LogLine, lines_of

from hub.runs.queries import log_end, read_log

LEVELS = ("ERROR", "WARNING", "SUCCESS", "INFO", "DEBUG")
_LEVEL = re.compile(rf"\b(?:{'|'.join(LEVELS)})\b")
_HEAD = 100  # characters of a line in which its level is
NEWEST = 256 * 1024  # characters from the end of the log
MOST_LINES = 2000


@dataclass(frozen=True)
class LogPart:
    """The lines that match. cut: characters skipped before the part that was read; hidden: lines beyond MOST_LINES."""

    lines: tuple[LogLine, ...]
    cut: int
    hidden: int


def log_lines(
    run_id: UUID, attempt: int, labels: Sequence[str], *, process: str, text: str, level: str = ""
) -> LogPart:
    """Return an attempt's newest lines with `text`, of one process (or of ALL) and of one of LEVELS (or of any)."""
    start = max(0, log_end(run_id, attempt) - NEWEST)
    whole, offset, at_end = "", start, False
    while not at_end:
        piece = read_log(run_id, attempt, offset)
        whole, offset, at_end = whole + piece.text, piece.next_offset, piece.at_end
    wanted = text.lower()
    passed = [
        line
        for line in _of_level(lines_of([whole], labels), level)
        if process in {ALL, line.process} and wanted in line.text.lower()
    ]
    return LogPart(tuple(passed[-MOST_LINES:]), start, max(0, len(passed) - MOST_LINES))


def _of_level(lines: Iterable[LogLine], level: str) -> Iterator[LogLine]:
    """Yield the lines of a level, or all. A line without one, such as of a traceback, has that of the line before it by
    the same process; the run's own lines are INFO."""
    current: dict[str, str] = {}
    for line in lines:
        if named := _LEVEL.search(line.text, 0, _HEAD):
            current[line.process] = named.group()
        elif line.process == RUN:
            current[RUN] = "INFO"
        if level in ("", current.get(line.process, "INFO")):
            yield line
