"""The run's streamed log: pieces by character offset, safe to send again, bounded in size."""

from __future__ import annotations

import re

from django.db import transaction

from hub.core.errors import Conflict
from hub.runs.models import Run, RunLogPiece
from hub.runs.queries import log_end

MAX_LOG = 4_000_000  # characters an attempt
TRUNCATED = "\n[the log is longer than the hub keeps: the rest is left out]\n"
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # NUL breaks Postgres, lone surrogates break UTF-8


def append_log(*, run: Run, offset: int, text: str) -> int:
    """Keep a piece of the current attempt's log; its end in characters.

    A piece that is (partly) there already adds only what is new. Raises Conflict `log_gap` when something is missing
    before it: the sender goes back to the offset in `fields`.
    """
    text = _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    with transaction.atomic():
        Run.objects.select_for_update().only("pk").get(pk=run.pk)  # one writer at a time
        end = log_end(run.pk, run.attempt)
        if end >= MAX_LOG:
            return end
        if offset > end or offset < 0:
            raise Conflict("a piece of the log is missing before this one", code="log_gap", fields={"offset": str(end)})
        fresh = text[end - offset :]
        if not fresh:
            return end
        if end + len(fresh) > MAX_LOG:
            fresh = fresh[: MAX_LOG - end] + TRUNCATED
        RunLogPiece.objects.create(run_id=run.pk, attempt=run.attempt, offset=end, text=fresh)
    return end + len(fresh)


def note_in_log(*, run: Run, text: str) -> None:
    """A line of the hub's own at the end of the attempt's log, whatever its size."""
    end = log_end(run.pk, run.attempt)
    RunLogPiece.objects.create(run_id=run.pk, attempt=run.attempt, offset=end, text=f"[hub] {text}\n")
