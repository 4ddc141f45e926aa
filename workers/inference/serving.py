"""The body of a serve run: an engine behind a small authenticated proxy, which the hub calls, until it is idle."""

from __future__ import annotations

import asyncio
import secrets
import time

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, web
from envhub.protocol.models.deployments import DRAIN_SECONDS
from envhub.protocol.models.inference import ServeAccepted, ServeAddress, ServePayload
from envhub.protocol.runs import Failure, FailureKind

from workers.inference.address import EngineAddress
from workers.inference.engines import EngineFailed, acquire
from workers.runs.errors import RunFailed
from workers.runs.execution import Job

CHECK_SECONDS = 1.0
HEALTH_SECONDS = 10.0
SILENT_SECONDS = 180.0  # after this an engine counts as frozen, as in the manager
MAX_BODY = 32 * 1024 * 1024
HOP_HEADERS = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive"})


class Proxy:
    """Forwards /v1/* to the engine for callers that know the secret, and remembers when it was last used."""

    def __init__(self, engine: EngineAddress, secret: str, http: ClientSession) -> None:
        self._engine = engine
        self._expected = f"Bearer {secret}".encode()
        self._http = http
        self._busy = 0
        self._used = time.monotonic()

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last call ended; 0 while one is running."""
        return 0.0 if self._busy else time.monotonic() - self._used

    def application(self) -> web.Application:
        """Return the aiohttp application."""
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", "/v1/{path:.*}", self.handle)
        return app

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Handle one call; its answer is passed on as it arrives."""
        given = request.headers.get("Authorization", "").encode(errors="replace")
        if not secrets.compare_digest(given, self._expected):
            return web.json_response({"error": {"message": "not for you", "type": "not_allowed"}}, status=401)
        self._busy += 1
        try:
            return await self._forward(request)
        finally:
            self._busy -= 1
            self._used = time.monotonic()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {"Content-Type": request.headers.get("Content-Type", "application/json"), **self._engine.headers}
        async with self._http.request(
            request.method, self._engine.root + request.path_qs, data=body, headers=headers
        ) as upstream:
            kept = {name: value for name, value in upstream.headers.items() if name.lower() not in HOP_HEADERS}
            response = web.StreamResponse(status=upstream.status, headers=kept)
            await response.prepare(request)
            async for piece in upstream.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response


async def run_serve(job: Job) -> None:
    """Serve until idle for `idle_seconds`, cancelled, or the engine dies. Raises RunFailed."""
    payload = ServePayload.model_validate(job.claim.payload)
    try:
        async with acquire(payload.model, payload.target, data=job.settings.data, fetch=job.artifacts.fetch) as engine:
            job.lease.engine_gpus = engine.gpus
            await _serve(job, payload, engine)
    except EngineFailed as error:
        kind = FailureKind.INFRASTRUCTURE if error.busy else FailureKind.LIMIT
        failure = Failure(kind=kind, code="engine_failed", message=str(error)[:4000], hint=error.hint)
        raise RunFailed(failure) from error


async def _serve(job: Job, payload: ServePayload, engine: EngineAddress) -> None:
    job.lease.farewell_s = DRAIN_SECONDS
    secret = secrets.token_urlsafe(32)
    limits = TCPConnector(limit=0)
    async with ClientSession(connector=limits, timeout=ClientTimeout(total=None, sock_connect=10)) as http:
        proxy = Proxy(engine, secret, http)
        runner = web.AppRunner(proxy.application(), handler_cancellation=True, access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, job.settings.serve_host, 0)
            await site.start()
            host, port = job.settings.serve_address or job.settings.serve_host, runner.addresses[0][1]
            address = ServeAddress(base_url=f"http://{host}:{port}/v1", secret=secret)
            await job.run.post(f"/runs/{job.run.run_id}/address", address, ServeAccepted)
            job.lease.log(f"{payload.model} is served at {address.base_url}")
            await _until_idle(job, proxy, payload.idle_seconds, http, engine)
        except asyncio.CancelledError:
            if job.lease.cancelled.is_set():
                await _drain(job, site, proxy)
            raise
        finally:
            await runner.cleanup()


async def _drain(job: Job, site: web.TCPSite, proxy: Proxy) -> None:
    """Stop taking connections and let running calls end. The lease limits the time by a second cancellation."""
    job.lease.log(f"no new requests; those under way have {DRAIN_SECONDS:.0f} s to end, then the engine is let go")
    await site.stop()
    while proxy.idle_seconds == 0.0:  # noqa: ASYNC110  polled as rarely as the engine's health
        await asyncio.sleep(CHECK_SECONDS)


async def _until_idle(job: Job, proxy: Proxy, idle_seconds: float, http: ClientSession, engine: EngineAddress) -> None:
    heard = time.monotonic()
    while proxy.idle_seconds < idle_seconds:
        await asyncio.sleep(CHECK_SECONDS)
        health = await _health(http, engine)
        if health is False:
            raise _died("ended")
        if health:
            heard = time.monotonic()
        elif time.monotonic() - heard > SILENT_SECONDS:
            raise _died(f"has not answered for {SILENT_SECONDS:.0f} s")
    job.lease.log(f"no call for {idle_seconds:.0f} s: stopped serving")


async def _health(http: ClientSession, engine: EngineAddress) -> bool | None:
    """Return whether the engine is healthy; None if it does not answer in time, as a very busy one may not."""
    timeout = ClientTimeout(total=HEALTH_SECONDS)
    try:
        async with http.get(f"{engine.root}/health", headers=engine.headers, timeout=timeout) as answer:
            return answer.status == 200
    except TimeoutError:
        return None
    except (ClientError, OSError):
        return False


def _died(what: str) -> RunFailed:
    return RunFailed.because(
        FailureKind.INFRASTRUCTURE,
        "engine_died",
        f"The engine {what} while it served the model.",
        "It is started again; if it happens often, look at the worker's log.",
    )
