"""Pages are sent gzipped to browsers. Nothing else: files are streamed, boxes' requests are passed on byte by byte,
installers compare lengths, and streams must not wait."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.middleware.gzip import GZipMiddleware


class CompressedPages(GZipMiddleware):
    """Django's own, for HTML alone. It adds up to 100 random bytes, so that lengths do not tell secrets (BREACH)."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Compressed if it is a whole page and the browser takes it."""
        is_page = response.get("Content-Type", "").startswith("text/html") and not response.streaming
        if not is_page or "text/html" not in request.headers.get("Accept", ""):
            return response
        return super().process_response(request, response)
