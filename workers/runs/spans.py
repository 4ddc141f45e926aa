"""The span of one attempt at a run, below whatever started the run; everything else that a worker records is inside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from envhub.client.telemetry.json_logs import noting
from envhub.client.telemetry.tracing import Span, begin_span, now_ns, span
from envhub.protocol.runs import Claim, FinishRequest, RunState
from envhub.protocol.traces import TraceContext


@contextmanager
def run_span(claim: Claim, *, asked_ns: int | None = None) -> Iterator[Span]:
    """The current span of an attempt; all that is logged inside names its trace.

    It begins when the run was queued, so that its waiting shows: of the first attempt, the only one of which that is
    known. asked_ns: when this worker asked the hub for the run.
    """
    parent = TraceContext.of_run(claim.traceparent) or TraceContext.fresh()
    claimed = now_ns()
    asked = min(asked_ns or claimed, claimed)
    first = claim.attempt == 1 and claim.queued_at is not None
    queued = min(int(claim.queued_at.timestamp() * 1e9), asked) if first and claim.queued_at else asked
    attributes = {
        "envhub.run.id": claim.run_id,
        "envhub.run.kind": claim.kind.value,
        "envhub.run.attempt": claim.attempt,
        "envhub.run.subject": claim.subject,
        "envhub.owner": claim.owner,
    }
    link = TraceContext.of_run(claim.led_here)
    of_run = span(f"run {claim.kind}", attributes, parent=parent, kind="consumer", link=link, at_ns=queued)
    with noting(trace_id=parent.trace_id), of_run as whole:
        if first:
            begin_span("queued", at_ns=queued).end(asked)
        begin_span("claim", at_ns=asked).end(claimed)
        yield whole


def tell_end(whole: Span, finish: FinishRequest | None) -> None:
    """How the attempt ended; None: it was taken away."""
    if finish is None:
        whole.fail("lease_lost")
        return
    whole.set({"envhub.run.state": finish.state.value})
    if finish.failure is not None and finish.state is not RunState.SUCCEEDED:
        whole.set({"envhub.failure.kind": finish.failure.kind.value, "envhub.failure.code": finish.failure.code})
        whole.fail(finish.failure.code)
