"""The outermost ASGI application: gives requests ids, counts them and times their responses, whichever inner
application answers.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from envhub.client.telemetry.json_logs import note

from hub.core.database_pool import note_pool
from hub.core.metrics import IN_PROGRESS, METHODS, REQUEST_SECONDS, REQUESTS
from hub.core.requests.body_limit import Application, Receive, Scope, Send
from hub.core.requests.traces import begin_request

_ROUTE = "hub.route"
NAME = "hub.request_id"  # key in the scope: the request's id in the logs
REQUEST_ID = b"x-request-id"
TRACEPARENT = b"traceparent"
_GOOD_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
STATIC = "static/<path>"
NO_ROUTE = "none"  # no route matches, or the request was refused before routing
NO_ANSWER = "none"  # the client disconnected, or the application failed


def note_route(scope: Scope, route: str) -> None:
    """Record which route answers a request: its pattern, never its path."""
    scope[_ROUTE] = route


class Observed:
    """The application around all others."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        began = time.perf_counter()
        request_id = _request_id(scope)
        scope[NAME] = request_id.decode()
        note(request_id=scope[NAME])
        trace = begin_request(dict(scope["headers"]).get(TRACEPARENT, b"").decode("latin-1"))
        status = NO_ANSWER

        async def noting(message: Mapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
                REQUEST_SECONDS.labels(_route(scope), _method(scope)).observe(time.perf_counter() - began)
                message = {**message, "headers": _named(message.get("headers", ()), request_id)}
            await send(message)

        IN_PROGRESS.inc()
        try:
            await self._application(scope, receive, noting)
        finally:
            IN_PROGRESS.dec()
            note_pool()
            REQUESTS.labels(_route(scope), _method(scope), status).inc()
            trace.end(_method(scope), _route(scope), status, request_id.decode())


def _request_id(scope: Scope) -> bytes:
    """Return a proxy's id for the request if it is safe to log, else a new one."""
    given: bytes = dict(scope["headers"]).get(REQUEST_ID, b"")
    return given if _GOOD_ID.fullmatch(given) else uuid.uuid4().hex.encode()


def _named(headers: Iterable[tuple[bytes, bytes]], request_id: bytes) -> list[tuple[bytes, bytes]]:
    """Add the request's id, replacing one that a sandbox's program may have set."""
    return [*((name, value) for name, value in headers if name.lower() != REQUEST_ID), (REQUEST_ID, request_id)]


def _route(scope: Scope) -> str:
    found: str | None = scope.get(_ROUTE)
    if found is None:
        return STATIC if scope["path"].startswith("/static/") else NO_ROUTE
    return found or "/"


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in METHODS else "other"
