"""The one place where the audit log is written: around every view that Django serves, innermost of the middleware."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

from hub.accounts.acting import noting_owner
from hub.audit.actions import RETURNS
from hub.audit.services import record

SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


def audit_log(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Logs what was asked by an unsafe method and done."""

    def respond(request: HttpRequest) -> HttpResponseBase:
        if request.method in SAFE:
            return _returned(request, get_response(request))
        with noting_owner() as acting:
            response = get_response(request)
            if response.status_code < 400 and request.resolver_match is not None:
                record(request, request.resolver_match, response, acting)
        return response

    return respond


def _returned(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Logs the safe request that ends what a person did elsewhere."""
    match = request.resolver_match
    if match is not None and f"GET {match.route}" in RETURNS and response.status_code < 400:
        with noting_owner() as acting:
            record(request, match, response, acting)
    return response
