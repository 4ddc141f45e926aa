"""The trace that a request belongs to. `observed` begins and ends it, whoever knows the caller says what it is.

Every request has a trace's id for its log lines. A span is recorded only for one that carries a trace of a caller with
a token, or that starts a run: nobody wants a trace of each poll. What strangers and browsers send counts for nothing.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from envhub.client.telemetry.json_logs import note
from envhub.client.telemetry.tracing import NO_SPAN, Span, begin_span, now_ns
from envhub.protocol.traces import TraceContext


@dataclass
class RequestTrace:
    """Of one request; `context` is what a run that it starts goes on with."""

    offered: TraceContext | None  # by the caller, whoever that is
    context: TraceContext
    began_ns: int
    span: Span = NO_SPAN
    is_users: bool = True  # not a worker's, about a run that it holds

    def begin_span(self, parent: TraceContext) -> None:
        """Once; its name comes with its end."""
        self.span = begin_span("request", parent=parent, kind="server", at_ns=self.began_ns)
        self.context = self.span.context or parent
        note(trace_id=self.context.trace_id)

    def end(self, method: str, route: str, status: str, request_id: str) -> None:
        """The answer is over. `status`: of HTTP, or a word."""
        if not self.span.is_recording:
            return
        self.span.set(
            {
                "http.request.method": method,
                "http.route": route,
                "http.response.status_code": int(status) if status.isdecimal() else None,
                "envhub.request.id": request_id,
            }
        )
        self.span.rename(f"{method} {route}")
        if not status.isdecimal() or int(status) >= 500:
            self.span.fail(status)
        self.span.end()


_request: ContextVar[RequestTrace | None] = ContextVar("request_trace", default=None)


def begin_request(header: str) -> RequestTrace:
    """With the caller's `traceparent`, which counts for nothing yet."""
    trace = RequestTrace(TraceContext.of_header(header), TraceContext.fresh(), now_ns())
    note(trace_id=trace.context.trace_id)
    _request.set(trace)
    return trace


def trust_caller() -> None:
    """A user's token was shown: the request belongs to the trace that its header names."""
    trace = _request.get()
    if trace is not None and trace.offered is not None and trace.span is NO_SPAN:
        trace.begin_span(trace.offered)


def belong_to_run(traceparent: str) -> None:
    """A run's own token was shown: its trace, and no other, whatever the header names."""
    trace, known = _request.get(), TraceContext.of_run(traceparent)
    if trace is None or known is None:
        return
    trace.is_users, trace.context = False, known
    note(trace_id=known.trace_id)
    if trace.offered is not None and trace.offered.trace_id == known.trace_id and trace.span is NO_SPAN:
        trace.begin_span(trace.offered)


def trace_of_new_run() -> TraceContext:
    """The trace of whoever starts it now; a new one where the hub does that by itself, or for a worker."""
    trace = _request.get()
    if trace is None or not trace.is_users:
        return TraceContext.fresh()
    if trace.span is NO_SPAN:
        trace.begin_span(trace.context)
    return trace.context
