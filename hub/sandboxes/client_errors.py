"""Errors as prime-sandboxes reads them: over HTTP `detail` and `error`, over Connect `code` and `message`. They are
told here when the worker is not asked, and mean what the worker's own mean (workers.broker.prime.refusals)."""

from __future__ import annotations

from django.http import HttpResponse, JsonResponse

from hub.core.errors import HubError

_CODES = {  # of Connect, by the status
    400: "invalid_argument",
    403: "permission_denied",
    404: "not_found",
    409: "unavailable",
    413: "resource_exhausted",
    422: "invalid_argument",
    429: "resource_exhausted",
    503: "unavailable",
}
ENDED = "sandbox_ended"


def told_to_clients(error: HubError) -> HttpResponse:
    """An ended sandbox is a 409, or `not_found`: then every release asks for its error context, and raises by that."""
    text = "; ".join(part.rstrip(".") for part in (error.message, error.hint) if part)
    code = "not_found" if error.code == ENDED else _CODES.get(error.status, "internal")
    body = {"detail": text, "code": code, "message": text}
    if error.code == ENDED:
        body["error"] = "sandbox_not_running"
    return JsonResponse(body, status=error.status)
