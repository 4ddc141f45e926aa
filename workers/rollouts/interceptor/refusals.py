"""The interceptor's own errors, in the shape of the caller's protocol. The runner knows them by error.type.

hub_infrastructure: no answer could be had. hub_judge: the same on the judges' route. hub_limit: a cap of the run.
"""

from __future__ import annotations

from aiohttp import web
from envhub.protocol.base import JsonObject

INFRASTRUCTURE, JUDGE, LIMIT = "hub_infrastructure", "hub_judge", "hub_limit"
NO_RETRY = {"x-should-retry": "false"}  # OpenAI's and Anthropic's clients obey it: we have retried already


class Refusal(Exception):
    """Answer the box with an error."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message


class LimitReached(Refusal):
    """A cap of the rollout or the run."""

    def __init__(self, message: str) -> None:
        super().__init__(403, LIMIT, message)


def error_body(protocol: str, kind: str, message: str) -> JsonObject:
    """An error as the protocol's clients expect it."""
    if protocol == "messages":
        return {"type": "error", "error": {"type": kind, "message": message}}
    return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


def respond(refusal: Refusal, protocol: str) -> web.Response:
    """The HTTP answer."""
    body = error_body(protocol, refusal.kind, refusal.message)
    return web.json_response(body, status=refusal.status, headers=NO_RETRY)
