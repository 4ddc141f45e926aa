"""The protocols that the box may use: their paths, what is asked upstream for them, and how answers are sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from aiohttp import web
from envhub.protocol.base import JsonObject

from workers.rollouts.interceptor import responses, streams, token_route
from workers.rollouts.interceptor.answers import Answer, Route, Upstream, UpstreamFailed, is_asked
from workers.rollouts.interceptor.refusals import Refusal
from workers.rollouts.interceptor.response_tools import Unsupported

BODY_LIMIT = 32 * 1024**2  # bytes per request
PARSED_LIMIT = 128 * 1024**2  # bytes that it takes in memory beyond its text: enough for two million token ids
VALUE_BYTES = 64  # that a value in a list or an object takes at most, an object three times as much
PROTOCOLS = {
    "/v1/chat/completions": "chat",
    "/v1/chat/completions/tokens": "tokens",
    "/v1/completions": "completions",
    "/v1/messages": "messages",
    "/v1/responses": "responses",
    "/v1/tokenize": "tokenize",
    "/tokenize": "tokenize",  # the token client strips /v1
}


def protocol_of(request: web.Request) -> str:
    """Return the protocol of a routed request."""
    path = request.path
    return next(name for suffix, name in sorted(PROTOCOLS.items(), reverse=True) if path.endswith(suffix))


async def ask(upstream: Upstream, protocol: str, body: JsonObject) -> Answer:
    """Return the upstream's answer in the protocol of the call. Raises UpstreamFailed, Refusal."""
    call = {key: value for key, value in body.items() if key not in {"stream", "stream_options"}}
    try:
        if protocol == "responses":
            answer = await upstream.send(Route.CHAT, responses.request_to_chat(call))
        elif protocol == "tokens":
            length = getattr(upstream, "model_length", None)
            answer = await upstream.send(Route.COMPLETIONS, token_route.request_to_completions(call, length))
        else:
            answer = await upstream.send(Route(protocol), call)
    except Unsupported as error:
        raise Refusal(400, "invalid_request_error", str(error)) from error
    except (KeyError, TypeError, AttributeError, IndexError) as error:  # the box's body does not follow its protocol
        raise Refusal(400, "invalid_request_error", f"the request is malformed: {error!r}") from error
    try:
        return answer.with_body(translated(protocol, body, answer))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        text = f"{upstream.model}: the endpoint gave a strange answer ({error!r})"
        raise UpstreamFailed(text, retries=answer.retries) from error


def translated(protocol: str, body: JsonObject, answer: Answer) -> JsonObject:
    """Return the answer's body in the protocol of the call with body `body`.

    A malformed answer raises KeyError, TypeError, AttributeError or IndexError.
    """
    if answer.ok and protocol == "responses":
        return responses.answer_from_chat(answer.body, body)
    if answer.ok and protocol == "tokens":
        return token_route.answer_to_chat(answer.body, has_tools=bool(body.get("tools")))
    if not answer.ok and protocol == "messages" and answer.body.get("type") != "error":
        error_part = answer.body.get("error")
        text = error_part.get("message") if isinstance(error_part, dict) else error_part
        return {"type": "error", "error": {"type": "invalid_request_error", "message": str(text)}}
    return answer.body


async def read_body(request: web.Request) -> bytes:
    """Return the request's JSON. Raises Refusal."""
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise Refusal(413, "invalid_request_error", f"a request of more than {BODY_LIMIT} bytes") from error


def parsed_size(raw: bytes) -> int:
    """Return about how many bytes JSON takes once it is parsed, beyond those of its text. Raises Refusal.

    Commas and brackets of texts count too. Without it, a few megabytes of empty lists would take twenty times as much.
    """
    size = VALUE_BYTES * (raw.count(b",") + raw.count(b"[") + 3 * raw.count(b"{"))
    if not raw.isascii() or b"\\u" in raw:
        size += 3 * len(raw)  # a text with one character beyond the first plane takes four bytes for each
    if size > PARSED_LIMIT:
        raise Refusal(413, "invalid_request_error", "a request of too many values; send fewer lists and objects")
    return size


def parsed(raw: bytes) -> JsonObject:
    """Return the JSON object of a request. Raises Refusal."""
    try:
        body: Any = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "invalid_request_error", f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise Refusal(400, "invalid_request_error", "the body must be a JSON object")
    return body


async def send(request: web.Request, protocol: str, body: JsonObject, shown: JsonObject) -> web.StreamResponse:
    """Send the answer, as server-sent events if the box asked for a stream."""
    if not body.get("stream"):
        return web.json_response(shown)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    for event in events(protocol, body, shown):
        await response.write(event)
    await response.write_eof()
    return response


def events(protocol: str, body: JsonObject, shown: JsonObject) -> Iterator[bytes]:
    """Return the protocol's server-sent events for a complete answer."""
    include_usage = bool((body.get("stream_options") or {}).get("include_usage"))
    if protocol == "messages":
        return streams.message_events(shown)
    if protocol == "responses":
        return streams.response_events(shown)
    if protocol == "completions":
        return streams.completion_events(shown, include_usage=include_usage)
    return streams.chat_events(shown, include_usage=include_usage)


def asked_for_tokens(body: JsonObject, protocol: str) -> bool:
    """Return whether the box asked for token ids or logprobs; otherwise it does not get them."""
    wanted = body.get("return_token_ids") or is_asked(body, "logprobs", counted=protocol == "completions")
    return bool(wanted) or protocol in {"tokens", "tokenize"}
