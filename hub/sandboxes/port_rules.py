"""What passes between a browser and a port of a sandbox. What listens there is hostile, and is on the hub's origin.

- The address is the only credential: cookies, Authorization and what tells who somebody is are dropped from a request.
- Of an answer only the headers of KEPT pass: none sets a cookie, asks for a password, or speaks for the whole origin
  (Clear-Site-Data, Alt-Svc, Strict-Transport-Security, NEL, Service-Worker-Allowed, X-Accel-Redirect).
- `sandbox` without allow-same-origin gives every document an origin of its own: it sees no cookie and no storage of the
  hub, registers no service worker, and its requests count as a stranger's.
- The hub's own pages load scripts from the hub ('self'). So that none of them can be made to load one from here, what a
  browser says comes from our origin is refused unless it is a page that somebody opens; web sockets also by Origin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

POLICY = "sandbox allow-scripts allow-forms allow-popups allow-downloads"
# CONNECT makes a tunnel of a connection to the worker that others get after it
PORT_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
KEPT = frozenset(
    {
        "accept-ranges", "allow", "content-disposition", "content-encoding", "content-language", "content-length",
        "content-range", "content-type", "etag", "expires", "last-modified", "location", "retry-after",
    }
)  # fmt: skip
_DROPPED = frozenset(
    {
        "authorization", "connection", "cookie", "expect", "forwarded", "host", "keep-alive", "proxy-authorization",
        "proxy-connection", "referer", "te", "trailer", "transfer-encoding", "upgrade", "x-csrftoken", "x-real-ip",
    }
)  # fmt: skip


def is_from_our_pages(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that a page of the hub loads this as a part of itself."""
    ours = headers.get("sec-fetch-site") in {"same-origin", "same-site"}
    return ours and headers.get("sec-fetch-dest") != "document"


def socket_is_from_our_pages(headers: Mapping[str, str]) -> bool:
    """The same of a web socket: of these, a browser always tells the origin."""
    origin = urlsplit(headers.get("origin", "")).netloc
    return is_from_our_pages(headers) or (bool(origin) and origin == headers.get("host", ""))


def socket_headers(headers: Mapping[str, str], *, port: int, prefix: str) -> dict[str, str]:
    """What the program in the sandbox is sent of a web socket's request. Not its origin, by which programs know who
    brings cookies: none are passed on, and documents from here have the origin "null", which programs refuse."""
    kept = request_headers(headers, port=port, prefix=prefix)
    return {name: value for name, value in kept.items() if name != "origin"}


def request_headers(headers: Mapping[str, str], *, port: int, prefix: str) -> dict[str, str]:
    """What the program in the sandbox is sent."""
    kept = {
        name: value
        for name, value in headers.items()
        if name not in _DROPPED and not name.startswith(("x-forwarded-", "sec-"))
    }
    return {**kept, "Host": f"localhost:{port}", "X-Forwarded-Prefix": prefix}


def response_headers(headers: Iterable[tuple[str, str]], *, prefix: str) -> list[tuple[str, str]]:
    """What the browser is sent."""
    kept = [(name.lower(), value) for name, value in headers if name.lower() in KEPT]
    moved = [(name, _below(prefix, value) if name == "location" else value) for name, value in kept]
    return [
        *moved,
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),  # the address is a secret
        ("cache-control", "no-store"),
        ("access-control-allow-origin", "*"),  # its own documents are strangers, too; nothing is sent with credentials
        ("access-control-allow-headers", "*"),
        ("access-control-allow-methods", "*"),
    ]


def _below(prefix: str, location: str) -> str:
    """A redirect to a path of the program is one below its address."""
    return prefix + location if location.startswith("/") and not location.startswith("//") else location
