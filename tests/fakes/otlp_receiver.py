"""A collector of traces: takes OTLP over HTTP, as OpenTelemetry's own exporter sends it, and keeps the spans.

with OtlpReceiver() as receiver: ... receiver.endpoint ... receiver.wait_for("run eval")
"""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

PATIENCE_S = 20.0


@dataclass(frozen=True)
class Seen:
    """One span as it arrived."""

    name: str
    service: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    links: tuple[str, ...]  # trace ids
    failed: bool
    began: float
    seconds: float


@dataclass
class OtlpReceiver:
    """`status` is what it answers; `delay_s` how late."""

    status: int = 200
    delay_s: float = 0.0
    spans: list[Seen] = field(default_factory=list)
    _server: ThreadingHTTPServer | None = None
    _leaving: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver._leaving.wait(receiver.delay_s)
                if receiver.status == 200:
                    receiver.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._leaving.set()
        for thread in threading.enumerate():  # what is sent later fails, and is tried again in other tests' time
            if thread.name.startswith("OtelBatch"):
                thread.join(PATIENCE_S)
        self._server.shutdown()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        """For OTEL_EXPORTER_OTLP_ENDPOINT."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a process that sends its spans here, soon."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "100"}

    def take(self, body: bytes) -> None:
        """What one request holds."""
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = dict(plain(resource.resource.attributes))["service.name"]
            for scope in resource.scope_spans:
                self.spans += [seen(span, service) for span in scope.spans]

    def named(self, name: str) -> list[Seen]:
        """The spans of a name."""
        return [span for span in self.spans if span.name == name]

    def wait_for(self, name: str, found: Callable[[Seen], bool] = lambda span: True) -> Seen:
        """The first span of a name that `found` takes, as soon as it is there."""
        deadline = time.monotonic() + PATIENCE_S
        while not (there := [span for span in self.named(name) if found(span)]):
            assert time.monotonic() < deadline, f"no span {name!r} among {sorted({span.name for span in self.spans})}"
            time.sleep(0.05)
        return there[0]


def seen(span: ProtoSpan, service: str) -> Seen:
    return Seen(
        name=span.name,
        service=service,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        attributes=plain(span.attributes),
        links=tuple(link.trace_id.hex() for link in span.links),
        failed=span.status.code == 2,
        began=span.start_time_unix_nano / 1e9,
        seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
    )


def plain(attributes: Any) -> dict[str, Any]:
    """Attributes as Python values."""
    found = {}
    for item in attributes:
        kind = item.value.WhichOneof("value")
        value = getattr(item.value, kind)
        found[item.key] = [one.string_value for one in value.values] if kind == "array_value" else value
    return found
