"""Whom a rate limit counts: the client's address as the proxy that we trust (or the socket) gives it."""

from __future__ import annotations

from django.http import HttpRequest


def client_address(request: HttpRequest) -> str:
    """REMOTE_ADDR: uvicorn sets it from X-Forwarded-For for the proxies in `--forwarded-allow-ips`, and only those."""
    return str(request.META.get("REMOTE_ADDR", "unknown"))
