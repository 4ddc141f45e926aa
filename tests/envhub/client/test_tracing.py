from __future__ import annotations

import logging
import time

import pytest
from envhub.client.telemetry.tracing import (
    NO_SPAN,
    begin_span,
    current_traceparent,
    is_tracing,
    now_ns,
    span,
    start_tracing,
    stop_tracing,
)
from envhub.protocol.traces import TraceContext

from tests.fakes.otlp_receiver import OtlpReceiver

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_nothing_is_recorded_without_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    start_tracing("test")
    with span("work") as one:
        assert (one, begin_span("more"), current_traceparent(), is_tracing()) == (NO_SPAN, NO_SPAN, "", False)


@pytest.mark.parametrize(
    ("name", "value"),
    [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
)
def test_the_standard_variables_turn_it_off(
    receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    start_tracing("test")
    assert not is_tracing()


def test_spans_arrive_with_their_parents_and_times(receiver: OtlpReceiver) -> None:
    start_tracing("test", {"envhub.worker": "w1"})
    began = now_ns() - 3_000_000_000
    with span("outer", {"a": 1, "left out": None}, at_ns=began), span("inner"):
        pass
    outer, inner = receiver.wait_for("outer"), receiver.wait_for("inner")
    assert (inner.parent_id, inner.trace_id, inner.service) == (outer.span_id, outer.trace_id, "test")
    assert outer.attributes == {"a": 1}
    assert outer.seconds > 2.9


def test_a_remote_parent_is_gone_on_with(receiver: OtlpReceiver) -> None:
    start_tracing("test")
    with span("work", parent=TraceContext(TRACE, SPAN, sampled=True)):
        sent = TraceContext.of_header(current_traceparent())
    work = receiver.wait_for("work")
    assert (work.trace_id, work.parent_id) == (TRACE, SPAN)
    assert sent == TraceContext(TRACE, work.span_id, sampled=True)


def test_a_trace_that_only_has_an_id_begins_under_it(receiver: OtlpReceiver) -> None:
    start_tracing("test")
    with span("work", parent=TraceContext(TRACE)):
        pass
    work = receiver.wait_for("work")
    assert (work.trace_id, work.parent_id) == (TRACE, "")


def test_what_a_caller_left_out_is_left_out(receiver: OtlpReceiver) -> None:
    start_tracing("test")
    with span("unsampled", parent=TraceContext(TRACE, SPAN, sampled=False)) as one:
        assert not one.is_recording
        assert current_traceparent().endswith("-00")
    with span("sampled"):
        pass
    receiver.wait_for("sampled")
    assert not receiver.named("unsampled")


def test_the_standard_sampler_decides_for_new_traces(receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    start_tracing("test")
    with span("new") as one:
        assert not one.is_recording


def test_an_exception_fails_its_span_by_its_type_alone(receiver: OtlpReceiver) -> None:
    start_tracing("test")
    with pytest.raises(ValueError), span("work"):
        raise ValueError("the secret prompt")
    work = receiver.wait_for("work")
    assert (work.failed, work.attributes) == (True, {"error.type": "ValueError"})


def test_long_attributes_are_cut(receiver: OtlpReceiver) -> None:
    start_tracing("test")
    with span("work", {"long": "x" * 5000}):
        pass
    assert len(receiver.wait_for("work").attributes["long"]) == 300


def test_a_collector_that_refuses_costs_spans_and_one_line(
    receiver: OtlpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    lost: list[int] = []
    receiver.status = 400
    start_tracing("test", lost=lost.append)
    for number in (1, 2):
        with span("work"):
            pass
        deadline = time.monotonic() + 10
        while sum(lost) < number and time.monotonic() < deadline:
            time.sleep(0.02)
    receiver.status = 200
    with span("later"):
        pass
    receiver.wait_for("later")
    time.sleep(0.1)  # the line follows the answer
    lines = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert lines == ["traces are lost until 127.0.0.1 takes them", "traces are exported again; 2 spans were lost"]


def test_a_collector_that_hangs_holds_nobody_up(receiver: OtlpReceiver) -> None:
    receiver.delay_s = 30
    start_tracing("test")
    began = time.monotonic()
    for _ in range(5000):  # more than wait in the queue
        begin_span("work").end()
    stop_tracing(0.2)
    assert time.monotonic() - began < 5


def test_ids_of_the_specification_are_read() -> None:
    assert TraceContext.of_header(f"00-{TRACE}-{SPAN}-01") == TraceContext(TRACE, SPAN, sampled=True)
    assert TraceContext.of_header(f"00-{TRACE}-{SPAN}-02") == TraceContext(TRACE, SPAN)
    assert TraceContext.of_header(f"cc-{TRACE}-{SPAN}-01-what-comes-later") == TraceContext(TRACE, SPAN, sampled=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\nX: y",
        "00-" + "٣" * 32 + f"-{SPAN}-01",
    ],
)
def test_what_is_no_traceparent_is_none(text: str) -> None:
    assert TraceContext.of_header(text) is None


def test_a_run_keeps_a_trace_that_nobody_has_recorded() -> None:
    fresh = TraceContext.fresh()
    assert TraceContext.of_run(str(fresh)) == fresh
    assert fresh.header == ""
    assert TraceContext.of_run("") is None
