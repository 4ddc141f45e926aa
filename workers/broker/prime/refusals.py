"""Map errors to the answers that clients understand: always JSON with a `detail`, and a status that names the kind.

409   the sandbox has ended: every release then asks for its error context and raises the matching class
502   with error sandbox_not_found: there is no sandbox with this id
408   the command timed out
422   the request is malformed, or asks for a sandbox larger than any that can be had here: clients raise at once
429   too many sandboxes at once: releases from 0.3 on retry for 40 s
501   this hub does not have the feature; the text says what it has instead
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web
from envhub.protocol.base import JsonObject
from pydantic import ValidationError

from workers.broker.interface import NeverFits, NotThere, TooMany
from workers.broker.prime.protobuf import Malformed
from workers.images.interface import ImageLacking
from workers.sandbox import BoxGone, FileRefused, SandboxError, TooLarge

logger = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
STATUSES: tuple[tuple[type[SandboxError], int], ...] = (
    (TooMany, 429),
    (NeverFits, 422),
    (ImageLacking, 400),
    (TooLarge, 413),
    (BoxGone, 409),
    (FileRefused, 404),
)


class Refusal(Exception):
    """An error answer: HTTP status, detail and further fields of its JSON."""

    def __init__(self, status: int, detail: str, **more: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.more = more


def refusal_of(error: Exception) -> Refusal | None:
    """Return the refusal that tells a client of an error, or None if the error is a bug of ours."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, NotThere):
        if error.state is None:
            return Refusal(502, str(error), error="sandbox_not_found")
        return Refusal(409, str(error), error="sandbox_not_running")
    if isinstance(error, SandboxError):
        return Refusal(next((status for kind, status in STATUSES if isinstance(error, kind)), 503), str(error))
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return Refusal(422, f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}")
    if isinstance(error, Malformed):
        return Refusal(400, str(error))
    if isinstance(error, web.HTTPException):
        return Refusal(error.status, f"{error.reason or 'refused'}: this hub has no such route")
    return None


def logged_refusal(error: Exception, request: web.Request) -> Refusal:
    """Return the refusal for any error; log it if it is a bug of ours."""
    refusal = refusal_of(error)
    if refusal is None:
        logger.error("a request of a sandbox's client failed: %s %s", request.method, request.path, exc_info=error)
        refusal = Refusal(500, "the worker failed to answer this; its log says why")
    return refusal


@web.middleware
async def answer_refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error in JSON, whatever the client sent."""
    try:
        return await handler(request)
    except ConnectionError:  # the client has disconnected
        raise
    except Exception as error:  # noqa: BLE001 - logged_refusal logs unexpected errors
        refusal = logged_refusal(error, request)
        body: JsonObject = {"detail": refusal.detail, **refusal.more}
        return web.json_response(body, status=refusal.status)
