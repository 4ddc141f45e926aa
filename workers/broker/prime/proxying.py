"""Forward HTTP and web sockets to a port of a sandbox over a stream that is already connected.

aiohttp parses the sandbox's answer, so its limits apply to that too and no answer can run into the next one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from workers.broker.refusals import Refusal
from workers.broker.web_sockets import pass_web_socket, wants_web_socket

Connect = Callable[[], Awaitable[socket.socket]]
HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
     "transfer-encoding", "upgrade", "host", "content-length")
)  # fmt: skip
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30)
PIECE = 64 * 1024


class _Connected(aiohttp.UnixConnector):
    """A connector that uses connections made by `connect`; it resolves no names and opens no connections itself."""

    def __init__(self, connect: Connect) -> None:
        super().__init__("", force_close=True)
        self._connect_port = connect

    async def _create_connection(self, *_args: object) -> aiohttp.client_proto.ResponseHandler:
        stream = await self._connect_port()
        _, protocol = await asyncio.get_running_loop().create_connection(self._factory, sock=stream)
        return protocol


async def forward(request: web.Request, connect: Connect, *, port: int, prefix: str) -> web.StreamResponse:
    """Answer a request with what listens on `port`. `prefix` is the part of the path to remove. Raises Refusal."""
    path = request.raw_path[len(prefix) :] or "/"
    url = URL(f"http://localhost:{port}{path if path.startswith('/') else '/' + path}", encoded=True)
    async with aiohttp.ClientSession(
        connector=_Connected(connect), timeout=TIMEOUT, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
    ) as http:
        try:
            if wants_web_socket(request):
                return await pass_web_socket(request, http, url, _passed_on(request.headers))
            return await _plain(request, http, url, prefix)
        except (aiohttp.ClientError, ValueError) as error:
            if isinstance(error.__cause__, ConnectionRefusedError):
                raise Refusal(502, f"nothing listens on port {port} of the sandbox") from error
            raise Refusal(502, f"port {port} of the sandbox did not answer as HTTP: {str(error)[:200]}") from error


async def _plain(request: web.Request, http: aiohttp.ClientSession, url: URL, prefix: str) -> web.StreamResponse:
    body = request.content.iter_any() if request.body_exists else None
    headers = _passed_on(request.headers)
    if body is not None and request.content_length is not None:
        headers["Content-Length"] = str(request.content_length)
    async with http.request(
        request.method, url, headers=headers, data=body, allow_redirects=False, skip_auto_headers=("User-Agent",)
    ) as answer:
        headers = _passed_on(answer.headers)
        if (place := headers.get("Location", "")).startswith("/") and not place.startswith("//"):
            headers["Location"] = prefix + place
        response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)
        if answer.content_length is not None:
            response.content_length = answer.content_length
        await response.prepare(request)
        try:
            async for chunk in answer.content.iter_chunked(PIECE):
                await response.write(chunk)
        except aiohttp.ClientError:
            if request.transport is not None:  # the answer is incomplete; nothing may follow it on this connection
                request.transport.close()
            raise
        return response


def _passed_on(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in HOP_BY_HOP)
