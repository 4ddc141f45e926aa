"""The log as JSON lines, made while it is sent."""

from __future__ import annotations

from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse

from hub.audit.models import AuditEntry
from hub.audit.queries import walk
from hub.audit.wire import entry_view
from hub.core.http import as_json
from hub.storage.downloads import stream_pieces


def export_response(request: HttpRequest, rows: QuerySet[AuditEntry]) -> StreamingHttpResponse:
    """A download."""
    lines = (f"{as_json(entry_view(row))}\n".encode() for row in walk(rows))
    return stream_pieces(request, lines, content_type="application/x-ndjson", filename="audit.jsonl")
