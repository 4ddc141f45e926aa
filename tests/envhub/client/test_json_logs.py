"""A log line as JSON: one line whatever happened, with what it belongs to, without tokens."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import Context, copy_context
from typing import Any

from envhub.client.telemetry.json_logs import JsonLines, note, noting


def line(message: str, *args: object, **fields: Any) -> dict[str, str]:
    record = logging.LogRecord("hub.runs", logging.WARNING, __file__, 1, message, args, fields.pop("exc_info", None))
    record.__dict__.update(fields)
    record.created = 1_700_000_000.25
    text = JsonLines(worker="builder").format(record)
    assert "\n" not in text
    found: dict[str, str] = json.loads(text)
    return found


def test_a_line_has_time_in_utc_level_and_what_its_process_is() -> None:
    assert Context().run(line, "run %s is lost", 7) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "hub.runs",
        "message": "run 7 is lost",
        "worker": "builder",
    }


def test_what_is_noted_is_in_every_line_of_its_context_and_of_no_other() -> None:
    def request() -> dict[str, str]:
        note(request_id="r1")
        note(run_id="7")
        return line("x")

    def outside() -> dict[str, str]:
        assert {"request_id": "r1", "run_id": "7"}.items() <= copy_context().run(request).items()
        assert line("x", run_id=8)["run_id"] == "8"
        return line("x")

    assert not {"request_id", "run_id"} & set(Context().run(outside))  # other tests have noted things in this thread


def test_what_is_noted_for_a_time_is_gone_after_it() -> None:
    def task() -> list[dict[str, str]]:
        note(request_id="r1")
        with noting(trace_id="t1"):
            inside = line("x")
        return [inside, line("x")]

    inside, after = Context().run(task)
    assert {"request_id": "r1", "trace_id": "t1"}.items() <= inside.items()
    assert after["request_id"] == "r1"
    assert "trace_id" not in after


def test_line_ends_and_tracebacks_stay_in_their_line() -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        found = line("broken\n2026-01-01 ERROR forged", exc_info=sys.exc_info())
    assert found["message"] == "broken\n2026-01-01 ERROR forged"
    assert found["exception"].endswith("ValueError: first\nsecond")


def test_tokens_are_masked_and_names_are_not() -> None:
    told = line("hub_Ab3dEfGhIjKlMnOpQr hubr_0123abcd.1.AbCdEfGhIjKl in hub_oldest_waiting_run_age_seconds")["message"]
    assert told == "hub_*** hubr_*** in hub_oldest_waiting_run_age_seconds"
