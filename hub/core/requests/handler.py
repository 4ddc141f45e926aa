"""Django's ASGI handler with the middleware and the view of a request in one thread, which keeps its connection.

Django's own stays on the event loop and hands either half of every synchronous middleware to a thread made for the
request: a dozen hops and a fresh database connection, which cost more than most of our answers.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.db import close_old_connections
from django.http import HttpResponseBase

from hub.core.requests.body_limit import Scope
from hub.core.requests.observed import note_route

THREADS = 64  # slow requests (large uploads, a test of somebody's endpoint) should not hold up the others


class ThreadedHandler(ASGIHandler):
    """Asynchronous views and streams still run on the event loop."""

    def load_middleware(self, is_async: bool = False) -> None:
        """The chain as WSGI has it, entered by one hop."""
        super().load_middleware(is_async=False)
        chain: Callable[[ASGIRequest], HttpResponseBase] = self._middleware_chain  # type: ignore[has-type]

        def respond(request: ASGIRequest) -> HttpResponseBase:
            close_old_connections()  # Django's signals do so, too, in a thread that has none
            try:
                return chain(request)
            finally:
                if request.resolver_match:
                    note_route(cast(Scope, request.scope), request.resolver_match.route)
                close_old_connections()

        threads = ThreadPoolExecutor(THREADS, thread_name_prefix="request")
        self._middleware_chain = sync_to_async(respond, thread_sensitive=False, executor=threads)
