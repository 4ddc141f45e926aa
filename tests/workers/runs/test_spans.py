"""The span of an attempt, and what a worker says of its trace."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta

import pytest
from envhub.client.telemetry.json_logs import JsonLines
from envhub.client.telemetry.tracing import now_ns
from envhub.protocol.runs import Claim, Failure, FailureKind, FinishRequest, RunKind, RunState

from tests.fakes.otlp_receiver import OtlpReceiver
from workers.runs.spans import run_span, tell_end

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def claim_of(**changes: object) -> Claim:
    fields: dict[str, object] = {
        "run_id": "r1", "kind": RunKind.EVAL, "attempt": 1, "token": "t", "lease_seconds": 30, "owner": "alice",
        "payload": {}, "traceparent": f"00-{TRACE}-{SPAN}-01",
    }  # fmt: skip
    return Claim.model_validate(fields | changes)


def trace_of_a_line() -> str | None:
    record = logging.LogRecord("test", logging.INFO, __file__, 1, "message", None, None)
    trace_id: str | None = json.loads(JsonLines().format(record)).get("trace_id")
    return trace_id


def test_lines_of_an_attempt_name_its_trace_though_nothing_is_exported() -> None:
    with run_span(claim_of()):
        assert trace_of_a_line() == TRACE


def test_a_run_of_an_older_hub_gets_a_trace_here() -> None:
    with run_span(claim_of(traceparent="")):
        assert trace_of_a_line() not in {None, "", TRACE}


def test_waiting_is_a_part_of_the_first_attempt(tracing: OtlpReceiver) -> None:
    queued = datetime.now(UTC) - timedelta(seconds=60)
    with run_span(claim_of(queued_at=queued), asked_ns=now_ns() - 1_000_000_000):
        pass
    whole = tracing.wait_for("run eval")
    waited, claimed = tracing.wait_for("queued"), tracing.wait_for("claim")
    assert (whole.trace_id, whole.parent_id) == (TRACE, SPAN)
    assert {waited.parent_id, claimed.parent_id} == {whole.span_id}
    assert waited.seconds == pytest.approx(59, abs=0.5)
    assert claimed.seconds == pytest.approx(1, abs=0.5)


def test_a_later_attempt_says_which_it_is_and_not_how_long_it_waited(tracing: OtlpReceiver) -> None:
    with run_span(claim_of(attempt=2, queued_at=datetime.now(UTC) - timedelta(hours=1))):
        pass
    whole = tracing.wait_for("run eval")
    assert (whole.attributes["envhub.run.attempt"], whole.seconds < 60) == (2, True)


def test_what_a_resumed_run_goes_on_with_is_linked(tracing: OtlpReceiver) -> None:
    with run_span(claim_of(led_here=f"00-{'b' * 32}-{SPAN}-01")):
        pass
    assert tracing.wait_for("run eval").links == ("b" * 32,)


def test_a_clock_that_is_ahead_makes_no_negative_times(tracing: OtlpReceiver) -> None:
    with run_span(claim_of(queued_at=datetime.now(UTC) + timedelta(hours=1))):
        pass
    assert 0 <= tracing.wait_for("run eval").seconds < 60


def test_a_failure_is_told_by_its_kind_and_code_alone(tracing: OtlpReceiver) -> None:
    failure = Failure(kind=FailureKind.ENVIRONMENT, code="import_error", message="secret words")
    with run_span(claim_of()) as whole:
        tell_end(whole, FinishRequest(state=RunState.FAILED, failure=failure))
    told = tracing.wait_for("run eval")
    assert told.failed
    assert told.attributes["envhub.failure.kind"] == "environment"
    assert told.attributes["envhub.failure.code"] == "import_error"
    assert "secret" not in str(told.attributes)
