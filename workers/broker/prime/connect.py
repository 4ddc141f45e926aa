"""The part of the Connect RPC protocol that command sessions use: one request, answered by a stream or by one message.

A frame is a byte of flags, the length in four bytes, and the message. The last frame of a stream has flag 2 and holds
JSON: {} or an error.
"""

from __future__ import annotations

import json
import struct
import zlib

from aiohttp import web
from envhub.protocol.base import JsonObject

from workers.broker.bodies import read_body
from workers.broker.prime.protobuf import Malformed
from workers.broker.prime.refusals import refusal_of
from workers.broker.refusals import Refusal

STREAM = "application/connect+proto"
UNARY = "application/proto"
COMPRESSED, LAST = 1, 2
MESSAGE_LIMIT = 8 * 1024 * 1024
LONGEST_S = 24 * 3600.0
CODES = {
    400: "invalid_argument",
    403: "permission_denied",
    404: "not_found",
    408: "deadline_exceeded",
    409: "not_found",
    413: "resource_exhausted",
    422: "invalid_argument",
    429: "resource_exhausted",
    501: "unimplemented",
    502: "not_found",
    503: "unavailable",
}
HTTP = {
    "invalid_argument": 400,
    "failed_precondition": 400,
    "permission_denied": 403,
    "not_found": 404,
    "resource_exhausted": 429,
    "unimplemented": 501,
    "unavailable": 503,
    "deadline_exceeded": 504,
}


class RpcError(Refusal):
    """A refusal with its own Connect error code."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(HTTP.get(code, 500), detail)
        self.code = code


def error_body(error: Exception) -> JsonObject:
    """Return the Connect error object of an error. Re-raises an error that is not a refusal."""
    refusal = refusal_of(error)
    if refusal is None:
        raise error
    code = refusal.code if isinstance(refusal, RpcError) else CODES.get(refusal.status, "internal")
    return {"code": code, "message": refusal.detail}


def frame(message: bytes, flags: int = 0) -> bytes:
    return struct.pack(">BI", flags, len(message)) + message


def last_frame(error: Exception | None = None) -> bytes:
    return frame(json.dumps({"error": error_body(error)} if error else {}).encode(), LAST)


async def read_framed(request: web.Request) -> bytes:
    """Read the single message of a streaming call. Raises Refusal, Malformed."""
    if request.content_type != STREAM:
        raise web.HTTPUnsupportedMediaType(reason=f"send {STREAM}")
    data = await read_body(request, MESSAGE_LIMIT)
    if len(data) < 5:
        raise Malformed("the request has no frame")
    flags, size = struct.unpack(">BI", data[:5])
    if size > len(data) - 5:
        raise Malformed("the request's frame is cut off")
    message = data[5 : 5 + size]
    if not flags & COMPRESSED:
        return message
    if request.headers.get("Connect-Content-Encoding") != "gzip":
        raise RpcError("unimplemented", "messages are compressed with gzip or not at all")
    return _unzipped(message)


def _unzipped(data: bytes) -> bytes:
    """Decompress a message; releases before 0.2.37 send them so. Raises Malformed, and RpcError if it is too large."""
    unzip = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        message = unzip.decompress(data, MESSAGE_LIMIT)
    except zlib.error as error:
        raise Malformed("the message is not gzip") from error
    if unzip.unconsumed_tail:
        raise RpcError("resource_exhausted", f"the message is larger than {MESSAGE_LIMIT} bytes")
    if not unzip.eof:
        raise Malformed("the message's gzip is cut off")
    return message


async def read_unary(request: web.Request) -> bytes:
    """Read the message of a unary call; aiohttp has already decompressed it. Raises Refusal."""
    if request.content_type != UNARY:
        raise web.HTTPUnsupportedMediaType(reason=f"send {UNARY}")
    return await read_body(request, MESSAGE_LIMIT)


def seconds_left(request: web.Request) -> float:
    """Return how many seconds the client waits for the call to end."""
    value = request.headers.get("Connect-Timeout-Ms", "")
    return min(int(value) / 1000, LONGEST_S) if value.isascii() and value.isdigit() and len(value) <= 10 else LONGEST_S


def unary_error(error: Exception) -> web.Response:
    body = error_body(error)
    return web.json_response(body, status=HTTP.get(str(body["code"]), 500))
