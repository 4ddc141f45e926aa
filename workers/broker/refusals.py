"""The error answers of the broker's services, which each of them puts into the form of its protocol."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web
from pydantic import ValidationError

from workers.broker.interface import NeverFits, NotThere, TooMany
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
        return Refusal(404 if error.state is None else 409, str(error))
    if isinstance(error, SandboxError):
        return Refusal(next((status for kind, status in STATUSES if isinstance(error, kind)), 503), str(error))
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return Refusal(422, f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}")
    if isinstance(error, web.HTTPException):
        return Refusal(error.status, f"{error.reason or 'refused'}: this hub has no such route")
    return None


def logged_fault(error: Exception, request: web.Request) -> Refusal:
    """Log a bug of ours and return the refusal for it."""
    logger.error("a request of a sandbox's client failed: %s %s", request.method, request.path, exc_info=error)
    return Refusal(500, "the worker failed to answer this; its log says why")
