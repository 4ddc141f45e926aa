"""Map errors to the answers that Prime's clients understand: JSON with a `detail`, and a status that names the kind.

409   the sandbox has ended: every release then asks for its error context and raises the matching class
502   with error sandbox_not_found: there is no sandbox with this id
408   the command timed out
422   the request is malformed, or asks for a sandbox larger than any that can be had here: clients raise at once
429   too many sandboxes at once: releases from 0.3 on retry for 40 s
501   this hub does not have the feature; the text says what it has instead
"""

from __future__ import annotations

from aiohttp import web
from envhub.protocol.base import JsonObject

from workers.broker import refusals
from workers.broker.interface import NotThere
from workers.broker.prime.protobuf import Malformed
from workers.broker.refusals import Handler, Refusal, logged_fault


def refusal_of(error: Exception) -> Refusal | None:
    """Return the refusal that tells a client of an error, or None if the error is a bug of ours."""
    if isinstance(error, NotThere):
        if error.state is None:
            return Refusal(502, str(error), error="sandbox_not_found")
        return Refusal(409, str(error), error="sandbox_not_running")
    if isinstance(error, Malformed):
        return Refusal(400, str(error))
    return refusals.refusal_of(error)


@web.middleware
async def answer_refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error in JSON, whatever the client sent."""
    try:
        return await handler(request)
    except ConnectionError:  # the client has disconnected
        raise
    except Exception as error:  # noqa: BLE001 - logged_fault logs unexpected errors
        refusal = refusal_of(error) or logged_fault(error, request)
        body: JsonObject = {"detail": refusal.detail, **refusal.more}
        return web.json_response(body, status=refusal.status)
