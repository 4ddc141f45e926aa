"""Spans of hub, workers and the command line. They cost next to nothing until OTEL_EXPORTER_OTLP_ENDPOINT is set.

`start_tracing` once a process, `span` around what takes time. OpenTelemetry itself is imported only where spans are
exported (envhub.client.telemetry.opentelemetry), so that the SDK does without it.
"""

from __future__ import annotations

import atexit
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Literal, TypeAlias

from envhub.protocol.traces import TraceContext

if TYPE_CHECKING:
    from envhub.client.telemetry.opentelemetry import Exporting

logger = logging.getLogger(__name__)
Kind: TypeAlias = Literal["internal", "server", "client", "producer", "consumer"]
Value: TypeAlias = str | bool | int | float | Sequence[str] | None  # None is left out
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
FAREWELL_S = 2.0
_exporting: Exporting | None = None


class Span:
    """A span, or nothing where nothing is recorded. No text of a model, a box or an exception belongs on one."""

    context: TraceContext | None = None  # None where it is nothing
    is_recording = False

    def set(self, attributes: Mapping[str, Value]) -> None:
        """Add attributes; those that are None are left out."""

    def rename(self, name: str) -> None:
        """Where the name is known only later."""

    def fail(self, why: str) -> None:
        """It ended badly; `why` is a word of ours, such as the code of a failure."""

    def end(self, at_ns: int | None = None) -> None:
        """Now, or at a time since the epoch. Ending it again has no effect."""


NO_SPAN = Span()


def start_tracing(
    service: str, resource: Mapping[str, str] | None = None, lost: Callable[[int], None] = lambda spans: None
) -> None:
    """Export this process's spans from now on, if the standard variables say so. Call it after a fork, not before.

    OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go before `service` and `resource`. `lost`: told how many spans could
    not be exported.
    """
    global _exporting
    if _exporting is not None or not _is_wanted():
        return
    try:
        exporting = import_module("envhub.client.telemetry.opentelemetry")
    except ImportError as error:
        logger.warning('traces are not exported: %s (pip install "envhub[otel]")', error)
        return
    _exporting = exporting.Exporting(service, dict(resource or {}), lost)
    atexit.register(stop_tracing)


def stop_tracing(seconds: float = FAREWELL_S) -> None:
    """Send what waits, for so long at most."""
    global _exporting
    if _exporting is not None:
        _exporting.stop(seconds)
        _exporting = None


def is_tracing() -> bool:
    """Whether spans are recorded and exported here."""
    return _exporting is not None


def begin_span(
    name: str,
    attributes: Mapping[str, Value] | None = None,
    *,
    parent: Span | TraceContext | None = None,
    kind: Kind = "internal",
    link: TraceContext | None = None,
    at_ns: int | None = None,
) -> Span:
    """A span that its caller ends. `parent`: by default the current one, if there is any.

    A TraceContext without a span gives the trace's id alone. `link`: something in another trace that led here.
    """
    if _exporting is None:
        return NO_SPAN
    return _exporting.begin(name, attributes or {}, parent, kind, link, at_ns)


@contextmanager
def span(
    name: str,
    attributes: Mapping[str, Value] | None = None,
    *,
    parent: Span | TraceContext | None = None,
    kind: Kind = "internal",
    link: TraceContext | None = None,
    at_ns: int | None = None,
) -> Iterator[Span]:
    """The current span of the block. What leaves the block by an exception has failed, with the exception's type."""
    if _exporting is None:
        yield NO_SPAN
        return
    begun = _exporting.begin(name, attributes or {}, parent, kind, link, at_ns)
    try:
        with inside(begun):
            yield begun
    except BaseException as error:
        begun.fail(type(error).__name__)
        raise
    finally:
        begun.end()


@contextmanager
def inside(begun: Span) -> Iterator[None]:
    """Make a span that somebody else ends the current one."""
    if _exporting is None or begun.context is None:
        yield
        return
    with _exporting.current(begun):
        yield


def current_traceparent() -> str:
    """The header that makes what is called now a part of the current span; empty without one."""
    context = None if _exporting is None else _exporting.current_context()
    return context.header if context else ""


def now_ns() -> int:
    """Nanoseconds since the epoch, as spans take them."""
    return time.time_ns()


def _is_wanted() -> bool:
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if os.environ.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower() not in {"otlp", ""}:
        return False
    if not any(os.environ.get(name, "").strip() for name in ENDPOINTS):
        return False
    spoken = next((os.environ[name].strip() for name in PROTOCOLS if os.environ.get(name, "").strip()), "")
    if spoken not in {"", "http/protobuf"}:
        logger.warning("traces are not exported: %s is not supported, http/protobuf is", spoken)
        return False
    return True
