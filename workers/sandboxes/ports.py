"""Requests to what listens in a sandbox: passed on over sockets that its holder opens, piece by piece; web sockets
message by message."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from aiohttp import (
    BaseConnector,
    ClientError,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    WSServerHandshakeError,
    web,
)
from aiohttp.client_proto import ResponseHandler
from multidict import CIMultiDict
from yarl import URL

from workers.broker.interface import Held
from workers.broker.web_sockets import pass_web_socket, wants_web_socket
from workers.runs.broken_answers import whole_or_closed

from .answers import Refused

MOST_CONNECTIONS = 100
MOST_WEB_SOCKETS = 32  # of these connections: they last, and each may hold two messages

HOP_HEADERS = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)


class HeldConnector(BaseConnector):
    """Connects to ports of a sandbox, whatever host a URL names; as aiohttp's own connector of unix sockets does."""

    def __init__(self, held: Held) -> None:
        super().__init__(limit=MOST_CONNECTIONS)
        self._held = held

    async def _create_connection(self, req: Any, traces: Sequence[Any], timeout: ClientTimeout) -> ResponseHandler:
        sock = await self._held.connect(req.url.port)
        _, protocol = await asyncio.get_running_loop().create_connection(self._factory, sock=sock)
        handler: ResponseHandler = protocol
        return handler


class Ports:
    """An async context manager over the connections of one sandbox."""

    def __init__(self, held: Held) -> None:
        self._http = ClientSession(
            connector=HeldConnector(held),
            cookie_jar=DummyCookieJar(),
            timeout=ClientTimeout(total=None),
            auto_decompress=False,
        )
        self._web_sockets = 0

    async def close(self) -> None:
        """Close every connection."""
        await self._http.close()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One request."""
        port = int(request.match_info["port"])
        if not 1 <= port <= 65535:
            raise Refused(404, "not_found", f"{port} is no port")
        path, _, query = request.raw_path.partition("?")
        rest = path.removeprefix(f"/ports/{request.match_info['port']}")
        url = URL(f"http://localhost:{port}{rest}{'?' * bool(query)}{query}", encoded=True)
        headers = [(name, value) for name, value in request.headers.items() if _passes(name)]
        try:
            if wants_web_socket(request):
                return await self._web_socket(request, url, dict(headers))
            return await self._plain(request, url, headers)
        except WSServerHandshakeError as error:
            message = (
                f"what listens on port {port} of the sandbox takes no web socket there (it answers {error.status})"
            )
            raise Refused(error.status if error.status >= 400 else 502, "no_web_socket", message) from error
        except (ClientError, OSError, ValueError) as error:
            message = f"nothing answers on port {port} of the sandbox ({type(error).__name__})"
            raise Refused(502, "port_closed", message, hint="start a server there that speaks HTTP") from error

    async def _web_socket(self, request: web.Request, url: URL, headers: dict[str, str]) -> web.StreamResponse:
        if self._web_sockets >= MOST_WEB_SOCKETS:
            message = f"{MOST_WEB_SOCKETS} web sockets to this sandbox are open"
            raise Refused(503, "too_many_web_sockets", message, hint="close some")
        self._web_sockets += 1
        try:
            return await pass_web_socket(request, self._http, url, headers)
        finally:
            self._web_sockets -= 1

    async def _plain(self, request: web.Request, url: URL, headers: list[tuple[str, str]]) -> web.StreamResponse:
        body = request.content if request.body_exists else None
        async with self._http.request(
            request.method, url, headers=headers, data=body, allow_redirects=False, skip_auto_headers=_AUTOMATIC
        ) as upstream:
            response = web.StreamResponse(status=upstream.status, headers=_headers(upstream.headers.items()))
            await response.prepare(request)
            with whole_or_closed(request):
                async for piece in upstream.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
            return response


_AUTOMATIC = ("User-Agent", "Content-Type", "Accept", "Accept-Encoding")


def _passes(name: str) -> bool:
    return name.lower() not in HOP_HEADERS | {"authorization", "content-length"}


def _headers(items: Iterable[tuple[str, str]]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in items if name.lower() not in HOP_HEADERS)
