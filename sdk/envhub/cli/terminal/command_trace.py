"""The trace of a command, where the standard OTEL_* variables ask for one.

It goes on where the environment's TRACEPARENT says, as in a traced CI job. A command that exports nothing hands that
on, or leaves it to the hub to begin a trace.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from envhub.client.telemetry.tracing import current_traceparent, span, start_tracing, stop_tracing
from envhub.protocol.traces import TraceContext

VARIABLE = "TRACEPARENT"


@contextmanager
def command_span(args: Sequence[str], table: Mapping[str, object]) -> Iterator[None]:
    """Around a command; its name is that of the table, without what else was typed."""
    start_tracing("envhub-cli")
    try:
        with span(" ".join(["hub", *_names(args, table)]), parent=_given(os.environ)):
            yield
    finally:
        stop_tracing()


def traceparent(environ: Mapping[str, str]) -> str:
    """What a client sends with its calls; empty: the hub begins a trace."""
    given = _given(environ)
    return current_traceparent() or (given.header if given else "")


def _given(environ: Mapping[str, str]) -> TraceContext | None:
    return TraceContext.of_header(environ.get(VARIABLE, ""))


def _names(args: Sequence[str], table: Mapping[str, object]) -> Iterator[str]:
    """The leading words that are commands."""
    for word in args:
        if word.startswith("-"):
            continue
        if word not in table:
            return
        yield word
        inner = table[word]
        if not isinstance(inner, Mapping):
            return
        table = inner
