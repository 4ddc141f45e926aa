"""Logs as one JSON object a line, for the hub (HUB_LOG_FORMAT=json) and for workers (WORKER_LOG_FORMAT=json).

What a line belongs to (request_id, run_id, trace_id, worker) is noted once, where it becomes known, and is in every
line that the same request, task or run writes from then on.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal

LogFormat = Literal["text", "json"]
TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
NAMES = ("request_id", "run_id", "trace_id", "worker")  # also taken from a record's `extra`
_TOKEN = re.compile(r"\b(hub[rw]?_)(?=[\w.-]*[A-Z0-9])[\w.-]{16,}")
_noted: ContextVar[dict[str, str] | None] = ContextVar("noted", default=None)


def note(**fields: str) -> None:
    """For all that this context logs from now on, and for contexts that are made of it."""
    _noted.set({**(_noted.get() or {}), **fields})


@contextmanager
def noting(**fields: str) -> Iterator[None]:
    """For all that is logged inside; what was noted before is back afterwards."""
    before = _noted.set({**(_noted.get() or {}), **fields})
    try:
        yield
    finally:
        _noted.reset(before)


class JsonLines(logging.Formatter):
    """Time in UTC, level, logger, message, what is noted, an exception's traceback. Tokens of a hub are masked.

    always: fields of every line of this process.
    """

    def __init__(self, **always: str) -> None:
        super().__init__()
        self._always = always

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever is in the message."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        told: dict[str, str] = {"time": time, "level": record.levelname.lower(), "logger": record.name}
        told |= {"message": record.getMessage(), **self._always, **(_noted.get() or {})}
        told |= {name: str(record.__dict__[name]) for name in NAMES if name in record.__dict__}
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            told["stack"] = self.formatStack(record.stack_info)
        return json.dumps({name: _TOKEN.sub(r"\1***", text) for name, text in told.items()})


def start_logging(level: str, form: LogFormat, **always: str) -> None:
    """Log to standard error from now on, in a process that has no settings of Django."""
    logging.basicConfig(level=level.upper(), format=TEXT)
    if form == "json":
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonLines(**always))
    logging.getLogger("httpx").setLevel(logging.WARNING)
