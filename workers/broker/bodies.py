"""Read request bodies within bounds: what a box sends may be endless, deeply nested or not JSON at all."""

from __future__ import annotations

from typing import TypeVar

from aiohttp import web
from pydantic import BaseModel

from workers.broker.memory import MEMORY, body_size
from workers.broker.refusals import Refusal

JSON_LIMIT = 4 * 1024 * 1024
Body = TypeVar("Body", bound=BaseModel)


async def read_body(request: web.Request, limit: int) -> bytes:
    """Read the whole body. Raises Refusal above `limit` bytes."""
    data = bytearray()
    async with request.app[MEMORY].hold(body_size(request, limit)):
        async for chunk in request.content.iter_any():
            data += chunk
            if len(data) > limit:
                raise Refusal(413, f"the request is larger than {limit // 1024} KiB; upload large things as files")
    return bytes(data)


async def read_json(request: web.Request, kind: type[Body]) -> Body:
    """Read a JSON body as `kind`; an empty body counts as an empty object.

    Raises Refusal, ValidationError (also for JSON nested too deep).
    """
    return kind.model_validate_json(await read_body(request, JSON_LIMIT) or b"{}")


def whole(request: web.Request, name: str, default: int, *, least: int, most: int) -> int:
    """Return a whole number from the query, clamped to `least` and `most`. Raises Refusal for anything else."""
    value = request.query.get(name)
    if value is None:
        return default
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise Refusal(422, f"{name}: {value[:50]!r} is no whole number")
    return max(least, min(most, int(value)))
