"""Limits requests per minute of one token and of one address, in front of everything that answers.

Uses sliding windows of the library `limits`. With Redis as the broker, all web processes count together; otherwise each
counts alone. While Redis is unreachable, nothing is refused.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
import time
from typing import Any

from django.conf import settings
from django.http import parse_cookie
from limits import RateLimitItemPerMinute
from limits.aio.storage import Storage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from limits.storage import storage_from_string
from redis.exceptions import RedisError

from hub.core.requests.body_limit import Application, Receive, Scope, Send

logger = logging.getLogger(__name__)
FREE = re.compile(r"/(?:healthz|metrics)/?|/static/.*")
WORKER = b"bearer hubw_"  # a thousand workers may share one token
TELL_EVERY_S = 60.0
TRY_LATER = 1013  # close code of web sockets


class RateLimits:
    """An ASGI application that answers requests beyond a limit with 429 and `Retry-After`. A limit of 0 means none.

    per_token: for one credential (API token, attempt's token, session), except workers' own. per_address: for all
    requests of one client. broker_url: the hub's; if it is a Redis, it keeps the counts.
    """

    def __init__(self, application: Application, *, per_token: int, per_address: int, broker_url: str) -> None:
        self._application = application
        self._limits = {"token": per_token, "address": per_address}
        self._limiter = _limiter(broker_url)
        self._told_at = -TELL_EVERY_S

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] in {"http", "websocket"} and not FREE.fullmatch(scope["path"]):
            for what, key in _keys(scope):
                if self._limits[what] and (wait := await self._wait(what, key)):
                    if scope["type"] == "websocket":
                        await send({"type": "websocket.close", "code": TRY_LATER})
                    else:
                        await _refuse(send, what, self._limits[what], wait)
                    return
        await self._application(scope, receive, send)

    async def _wait(self, what: str, key: str) -> float:
        """Count a request; return 0 if it is allowed, else the seconds until the next one is."""
        limit = RateLimitItemPerMinute(self._limits[what])
        limiter = self._limiter
        try:
            if await limiter.hit(limit, what, key):
                return 0.0
            return max(1.0, (await limiter.get_window_stats(limit, what, key)).reset_time - time.time())
        except (RedisError, OSError) as error:
            if time.monotonic() - self._told_at >= TELL_EVERY_S:
                self._told_at = time.monotonic()
                logger.warning("requests are not counted, Redis does not answer: %s", error)
            return 0.0


def _limiter(broker_url: str) -> SlidingWindowCounterRateLimiter:
    if broker_url.startswith(("redis://", "rediss://")):
        options: dict[str, Any] = {"implementation": "redispy", "key_prefix": "hub-requests"}
        storage = storage_from_string(f"async+{broker_url}", socket_timeout=1.0, socket_connect_timeout=1.0, **options)
    else:
        storage = storage_from_string("async+memory://")
    assert isinstance(storage, Storage)  # guaranteed by "async+"
    return SlidingWindowCounterRateLimiter(storage)


def _keys(scope: Scope) -> list[tuple[str, str]]:
    """Return the limits and keys under which a request counts. Credentials are only kept as hashes.

    A session counts whatever else the request brings: pages do not look at the `Authorization` header.
    """
    keys = [("address", scope["client"][0])] if scope.get("client") else []
    headers = dict(scope["headers"])
    token, session = headers.get(b"authorization", b""), _session(headers.get(b"cookie", b""))
    credentials = [session, b"" if token.lower().startswith(WORKER) else token]
    return keys + [("token", hashlib.sha256(each).hexdigest()[:32]) for each in credentials if each]


def _session(cookies: bytes) -> bytes:
    """Return only the session: other cookies change, and clients can add some."""
    return parse_cookie(cookies.decode("latin-1")).get(settings.SESSION_COOKIE_NAME, "").encode()


async def _refuse(send: Send, what: str, limit: int, wait: float) -> None:
    seconds = math.ceil(wait)
    error = {
        "code": "rate_limited",
        "message": f"more than {limit} requests a minute of one {what}",
        "hint": f"wait {seconds} s",
        "fields": {},
    }
    body = json.dumps({"error": error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"retry-after", str(seconds).encode()),
    ]
    await send({"type": "http.response.start", "status": 429, "headers": headers})
    await send({"type": "http.response.body", "body": body})
