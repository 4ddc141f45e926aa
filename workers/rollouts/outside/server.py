"""Answers in place of every outside server, over TLS and in the clear, on two sockets of one box.

What the hub does not have looks like a missing network: the connection ends without an answer. Much code never
checks the status and would take a 404 or 403 for the file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import certifi
from aiohttp import web

from workers.rollouts.outside.authority import authority
from workers.rollouts.outside.files import Files, NotHere
from workers.rollouts.outside.public import FirstOf
from workers.sandbox import Outside

MOST_TOLD = 20
BODY_LIMIT = 1024**2
DONE_WITHOUT = (  # clients of these go on without an answer
    "http://datasets-server.127.0.0.1",  # derived from HF_ENDPOINT by `datasets`
    "https://huggingface.co/api/agent-harnesses",  # huggingface_hub checks whether an agent calls it
)


class OutsideServer:
    """Serves files to a box. Adds requests without an answer to `lacking`, as (method, URL), in order."""

    def __init__(
        self, files: Files, log: Callable[[str], None], lacking: dict[tuple[str, str], None] | None = None
    ) -> None:
        self._files = files
        self._log = log
        self.lacking = {} if lacking is None else lacking

    def also(self, stores: Files) -> OutsideServer:
        """Return another server that also has the files of these stores."""
        return OutsideServer(FirstOf(self._files, stores), self._log, self.lacking)

    @asynccontextmanager
    async def serve(self, folder: Path, *, beside_real: bool = False) -> AsyncIterator[Outside]:
        """Listen in `folder` until the context ends. `beside_real`: the box also reaches some real servers."""
        app = web.Application(client_max_size=BODY_LIMIT)
        app.router.add_route("*", "/{tail:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.5)
        await runner.setup()
        trusted = [authority().certificate, *([Path(certifi.where()).read_bytes()] if beside_real else [])]
        outside = Outside(folder / "https.sock", folder / "http.sock", b"\n".join(trusted))
        try:
            await web.UnixSite(runner, str(outside.https), ssl_context=authority().context(), backlog=128).start()
            await web.UnixSite(runner, str(outside.http), backlog=128).start()
            yield outside
        finally:
            await runner.cleanup()
            for path in (outside.https, outside.http):
                path.unlink(missing_ok=True)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        asked = f"{request.scheme}://{request.host}{request.raw_path}"
        try:
            check_address(asked)
            return await self._files.answer(request, asked)
        except NotHere as reason:
            self._tell(request.method, asked, str(reason))
            if request.transport is not None:
                request.transport.close()
            return web.Response(status=502)  # nobody receives it

    def _tell(self, method: str, asked: str, reason: str) -> None:
        if asked.startswith(DONE_WITHOUT):
            return
        plain = "".join(char if char.isprintable() else "?" for char in asked[:500])
        if (method, plain) not in self.lacking and len(self.lacking) < MOST_TOLD:
            self.lacking[method, plain] = None
            self._log(f"no answer to {method} {plain}: {reason}")


def check_address(url: str) -> None:
    """Raise NotHere for a URL that cannot be parsed: a box may send any Host header."""
    try:
        _ = urlsplit(url).port
    except ValueError as error:
        raise NotHere(f"its address is malformed: {error}"[:300]) from error
