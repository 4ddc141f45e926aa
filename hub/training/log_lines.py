"""The newest lines of a training run's log, told apart by the process that said them. Pure but for the read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from hub.runs.queries import log_end, read_log

ALL, RUN, LEARNER, ENGINE = "all", "run", "learner", "engine"
NEWEST = 256 * 1024  # characters that are looked at
MOST_LINES = 2000
_ENGINE = re.compile(r"(?:engine: |the \w+ engine )")
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]|\r")


@dataclass(frozen=True)
class LogLine:
    """One line, without the name of its process."""

    process: str
    text: str


@dataclass(frozen=True)
class LogPart:
    """What passed the filter. cut: characters before the part that was looked at; hidden: lines beyond MOST_LINES."""

    lines: tuple[LogLine, ...]
    cut: int
    hidden: int


def processes_of(labels: Iterable[str]) -> list[str]:
    """What a reader may choose."""
    return [ALL, RUN, LEARNER, ENGINE, *(label for label in labels if label not in {ALL, RUN, LEARNER, ENGINE})]


def log_lines(run_id: UUID, attempt: int, labels: Sequence[str], *, process: str, text: str) -> LogPart:
    """The newest lines of an attempt, of one process and with `text` in them if wanted."""
    start = max(0, log_end(run_id, attempt) - NEWEST)
    whole, offset, at_end = "", start, False
    while not at_end:
        piece = read_log(run_id, attempt, offset)
        whole, offset, at_end = whole + piece.text, piece.next_offset, piece.at_end
    lines = [line_of(raw, labels) for raw in _CONTROL.sub("", whole).splitlines()]
    wanted = text.lower()
    passed = [line for line in lines if process in {ALL, line.process} and wanted in line.text.lower()]
    return LogPart(tuple(passed[-MOST_LINES:]), start, max(0, len(passed) - MOST_LINES))


def line_of(raw: str, labels: Sequence[str]) -> LogLine:
    """The process is named in front, by "learner: " or an environment's label; all else is the run's own."""
    name, colon, rest = raw.partition(": ")
    if colon and (name == LEARNER or name in labels):
        return LogLine(name, rest)
    return LogLine(ENGINE if _ENGINE.match(raw) else RUN, raw)
