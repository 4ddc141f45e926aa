"""What clients hear when something cannot be: always JSON with a `detail`, and the status by which they tell it apart.

409   the sandbox has ended: every release then asks for its error context and raises the class for that
502   with error sandbox_not_found: no sandbox of this id
408   a command's time is over
429   too many sandboxes at once: releases from 0.3 on try again, for 40 s
501   this hub does not have the feature; the text says what it has instead
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web
from envhub.protocol.base import JsonObject
from pydantic import ValidationError

from workers.broker.interface import NotThere, TooMany
from workers.broker.prime.protobuf import Malformed
from workers.images.interface import ImageLacking
from workers.sandbox import BoxGone, FileRefused, SandboxError, TooLarge

logger = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
STATUSES: tuple[tuple[type[SandboxError], int], ...] = (
    (TooMany, 429),
    (ImageLacking, 400),
    (TooLarge, 413),
    (BoxGone, 409),
    (FileRefused, 404),
)


class Refusal(Exception):
    """An answer other than success."""

    def __init__(self, status: int, detail: str, **more: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.more = more


def refusal_of(error: Exception) -> Refusal | None:
    """How an error is told to a client. None: it is a mistake of ours."""
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


def told_of(error: Exception, request: web.Request) -> Refusal:
    """How an error is told; a mistake of ours is logged, too."""
    refusal = refusal_of(error)
    if refusal is None:
        logger.error("a request of a sandbox's client failed: %s %s", request.method, request.path, exc_info=error)
        refusal = Refusal(500, "the worker failed to answer this; its log says why")
    return refusal


@web.middleware
async def answer_refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Around every request: nothing that a client sends makes it fail without an answer in JSON."""
    try:
        return await handler(request)
    except ConnectionError:  # the client has gone
        raise
    except Exception as error:  # noqa: BLE001 - told_of logs what nobody expects
        refusal = told_of(error, request)
        body: JsonObject = {"detail": refusal.detail, **refusal.more}
        return web.json_response(body, status=refusal.status)
