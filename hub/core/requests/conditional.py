"""ETags for what programs ask for again and again: an answer of the API that has not changed is not sent again."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.middleware.http import ConditionalGetMiddleware

ANSWERS = ("/api/v1/", "/docs")


class ConditionalAnswers(ConditionalGetMiddleware):
    """Django's own, for the API and the documentation. Other pages differ each time: their forms have tokens."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """With an ETag, or 304 where the caller has it already."""
        return super().process_response(request, response) if request.path.startswith(ANSWERS) else response
