"""Models that a user's sandbox may call: its calls go on to the hub's gateway, with a token that never enters it.

The sandbox finds them at $OPENAI_BASE_URL. Bodies and numbers of calls are bounded; the hub counts what is used.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web
from envhub.proxies import proxy_for

from workers.rollouts.package_stores import GATEWAY
from workers.runs.broken_answers import whole_or_closed
from workers.runs.execution import Job

ROUTE = "models"  # of the sandbox's gateway
BODY_LIMIT = 8 * 1024**2
MOST_CALLS = 16  # at once; others wait before their bodies are read
CALLS = ("chat/completions", "completions")
PASSED_BACK = ("Content-Type", "Retry-After")


@dataclass(frozen=True)
class Models:
    """`names` may be called, at `url` with `token`."""

    names: Sequence[str]
    url: str
    token: str
    http: aiohttp.ClientSession

    @property
    def variables(self) -> Mapping[str, str]:
        """Of the sandbox: what OpenAI's clients read."""
        return {"OPENAI_BASE_URL": f"{GATEWAY}/{ROUTE}/v1", "OPENAI_API_KEY": "sandbox", "OPENAI_MODEL": self.names[0]}

    @asynccontextmanager
    async def serve(self, socket: Path) -> AsyncIterator[None]:
        """Listen on `socket` until the context ends; calls in flight are then dropped."""
        calls = _Calls(self)
        app = web.Application(client_max_size=BODY_LIMIT)
        app.router.add_get(f"/{ROUTE}/v1/models", calls.list)
        for path in CALLS:
            app.router.add_post(f"/{ROUTE}/v1/{path}", calls.call)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.5)
        await runner.setup()
        await web.UnixSite(runner, str(socket)).start()
        try:
            yield
        finally:
            await runner.cleanup()


class _Calls:
    """The handlers of one sandbox."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._slots = asyncio.Semaphore(MOST_CALLS)

    async def list(self, request: web.Request) -> web.Response:
        entries = [{"id": name, "object": "model", "created": 0, "owned_by": "hub"} for name in self._models.names]
        return web.json_response({"object": "list", "data": entries})

    async def call(self, request: web.Request) -> web.StreamResponse:
        """One call, its answer as it comes."""
        async with self._slots:
            try:
                body = await request.json()
                asked = body.get("model") if isinstance(body, dict) else None
            except (ValueError, RecursionError):
                return refuse(400, "the body is no JSON")
            if asked not in self._models.names:
                known = ", ".join(self._models.names)
                return refuse(404, f"this sandbox may not call {str(asked)[:200]!r}; it was made with --model {known}")
            try:
                return await self._pass_on(request, json.dumps(body).encode())
            except (aiohttp.ClientError, OSError) as error:
                return refuse(503, f"the hub does not answer ({type(error).__name__})")

    async def _pass_on(self, request: web.Request, body: bytes) -> web.StreamResponse:
        """As it was read: with two models in a body, what was looked at is what is sent."""
        url = self._models.url + request.path.removeprefix(f"/{ROUTE}/v1")
        headers = {"Authorization": f"Bearer {self._models.token}", "Content-Type": "application/json"}
        async with self._models.http.post(url, data=body, headers=headers, allow_redirects=False) as answer:
            kept = {name: answer.headers[name] for name in PASSED_BACK if name in answer.headers}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            with whole_or_closed(request):
                async for piece in answer.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
            return response


def refuse(status: int, message: str) -> web.Response:
    """An error as OpenAI's clients read it."""
    return web.json_response({"error": {"message": message, "type": "hub", "code": None, "param": None}}, status=status)


@asynccontextmanager
async def open_models(job: Job, names: Sequence[str], token: str) -> AsyncIterator[Models | None]:
    """Those that the hub grants to the sandbox of a run; None for none."""
    if not names:
        yield None
        return
    job.lease.mask(token)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
    url = job.run.absolute("/inference/v1")
    async with aiohttp.ClientSession(proxy=proxy_for(url), trust_env=False, timeout=timeout) as http:
        yield Models(names, url, token, http)
