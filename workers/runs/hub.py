"""The hub's HTTP API as workers use it. Calls are retried while the hub is away, so its restart loses nothing.

`HubClient` uses the worker token (join, beat, claim), `RunClient` the run token of one attempt.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import urljoin

import httpx
from envhub import errors
from envhub.client.telemetry.tracing import current_traceparent
from envhub.protocol.base import ErrorBody, ErrorDetail
from envhub.protocol.placing.clusters import ClusterHeads
from envhub.protocol.placing.releases import HEADER as PROTOCOL_HEADER
from envhub.protocol.placing.releases import PROTOCOL
from envhub.protocol.runs import (
    BeatReply,
    BeatRequest,
    Claim,
    ClaimRequest,
    FinishRequest,
    Heartbeat,
    HeartbeatReply,
    JoinReply,
    JoinRequest,
    LogAppend,
    LogAppended,
    RunView,
)
from envhub.protocol.traces import HEADER as TRACE_HEADER
from envhub.proxies import HOME
from pydantic import BaseModel, ValidationError

from workers.runs.errors import LeaseLost

Reply = TypeVar("Reply", bound=BaseModel)
API = "/api/v1"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 3.0
TIMEOUT = httpx.Timeout(30.0, connect=5.0)
TRANSIENT = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Connection:
    """A pool of connections to one hub, with the time to wait for an unreachable hub. Its owner closes it."""

    http: httpx.AsyncClient
    patience_s: float

    async def send(
        self,
        method: str,
        path: str,
        token: str,
        reply: type[Reply],
        body: BaseModel | None = None,
        *,
        patience_s: float | None = None,
        traced: bool = False,
    ) -> Reply:
        """Make a call, retrying on connection errors, 5xx and answers not from the hub, until patience runs out.

        traced: add the hub's part to the current trace. Raises envhub.errors.
        """
        content = body.model_dump_json(exclude_none=True).encode() if body is not None else None
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            PROTOCOL_HEADER: str(PROTOCOL),
        }
        if traced and (traceparent := current_traceparent()):
            headers[TRACE_HEADER] = traceparent
        patience = self.patience_s if patience_s is None else patience_s
        deadline = time.monotonic() + patience
        pause = FIRST_PAUSE_S
        while True:
            problem: errors.EnvhubError
            try:
                response = await self.http.request(method, path, content=content, headers=headers)
            except httpx.RequestError as error:
                problem = errors.ConnectionFailed(f"the hub at {self.http.base_url} does not answer: {error!r}")
            else:
                answer = understood(response, reply) if response.is_success else error_of(response)
                if not isinstance(answer, errors.EnvhubError):
                    return answer
                problem = answer
                if not response.is_success and response.status_code not in TRANSIENT:
                    raise problem
            if time.monotonic() + pause > deadline:
                raise problem
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  jitter
            pause = min(2 * pause, LONGEST_PAUSE_S)


def connect(hub_url: str, patience_s: float) -> Connection:
    """Make a connection pool to the hub at `hub_url`."""
    limits = httpx.Limits(max_connections=32, max_keepalive_connections=8)
    return Connection(httpx.AsyncClient(base_url=hub_url, mounts=HOME, timeout=TIMEOUT, limits=limits), patience_s)


def error_of(response: httpx.Response) -> errors.ApiError:
    """Return the typed error of a refused call, or of one that was redirected: redirects get no token."""
    if response.next_request is not None:
        target = response.next_request.url.copy_with(path="/", query=None, fragment=None)
        return errors.ApiError(
            f"the hub's address redirects to {str(target).rstrip('/')}",
            code="redirected",
            hint="Set WORKER_HUB_URL to the address that the hub itself has (HUB_BASE_URL)",
        )
    try:
        detail = ErrorBody.model_validate_json(response.content).error
    except ValidationError:
        detail = ErrorDetail(code="http_error", message=f"HTTP {response.status_code}: {response.text[:500]}")
    kind = errors.BY_STATUS.get(response.status_code)
    if kind is None:
        kind = errors.ServerError if response.status_code >= 500 else errors.ApiError
    return kind(detail.message, code=detail.code, hint=detail.hint, fields=detail.fields)


def understood(response: httpx.Response, reply: type[Reply]) -> Reply | errors.ServerError:
    """Parse the answer to a call; return an error if it is not the hub's, such as a proxy's page with status 200."""
    try:
        return reply.model_validate_json(response.content)
    except ValidationError as error:
        return errors.ServerError(
            f"the answer to {response.request.method} {response.request.url.path} is not from a hub",
            code="bad_answer",
            hint="Check that WORKER_HUB_URL is the hub's address and that the hub is as new as this worker. "
            f"{error.errors()[0]['msg']}",
        )


class HubClient:
    """Calls with the worker token. An async context manager that owns the connections shared by its RunClients."""

    def __init__(self, hub_url: str, token: str, *, patience_s: float) -> None:
        self.url = hub_url
        self.connection = connect(hub_url, patience_s)
        self._token = token

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.connection.http.aclose()

    async def join(self, request: JoinRequest) -> JoinReply:
        """Announce this worker. Tried once; the caller decides about retries."""
        return await self.connection.send("POST", f"{API}/workers/join", self._token, JoinReply, request, patience_s=0)

    async def cluster_heads(self) -> ClusterHeads:
        """Return the clusters that this host may join, with their Ray tokens."""
        return await self.connection.send("GET", f"{API}/workers/clusters", self._token, ClusterHeads)

    async def beat(self, worker_id: str, request: BeatRequest) -> BeatReply:
        """Report that this worker is alive and its free room. Tried once, since the next beat repeats it."""
        path = f"{API}/workers/{worker_id}/beat"
        return await self.connection.send("POST", path, self._token, BeatReply, request, patience_s=0)

    async def claim(self, run_id: str, worker_id: str, gpus: tuple[int, ...] = ()) -> Claim:
        """Claim a run for which GPUs with this much free memory (MB) are reserved. Tried once: not idempotent.

        Raises errors.Conflict if another worker has the run.
        """
        path = f"{API}/runs/{run_id}/claim"
        request = ClaimRequest(worker_id=worker_id, gpus=gpus)
        return await self.connection.send("POST", path, self._token, Claim, request, patience_s=0)

    def run(self, claim: Claim) -> RunClient:
        """Return the client for a claimed attempt."""
        return RunClient(self.connection, self.url, claim)


class RunClient:
    """Calls with the run token of one attempt. Every call raises LeaseLost if the attempt is stale."""

    def __init__(self, connection: Connection, hub_url: str, claim: Claim) -> None:
        self.connection = connection
        self.hub_url = hub_url
        self.run_id = claim.run_id
        self._token = claim.token

    async def start(self) -> None:
        """Move the run from leased to running."""
        await self._send(f"/runs/{self.run_id}/start", None, RunView)

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatReply:
        """Renew the lease. Tried once, since the next heartbeat follows."""
        path = f"/runs/{self.run_id}/heartbeat"
        return await self.post(path, beat, HeartbeatReply, patience_s=0, traced=False)

    async def append_log(self, piece: LogAppend) -> None:
        """Append a piece of the log. Repeating it is safe."""
        await self._send(f"/runs/{self.run_id}/log", piece, LogAppended, traced=False)

    async def finish(self, request: FinishRequest) -> None:
        """Send the final report of this attempt."""
        await self._send(f"/runs/{self.run_id}/finish", request, RunView)

    async def post(
        self, path: str, body: BaseModel, reply: type[Reply], *, patience_s: float | None = None, traced: bool = True
    ) -> Reply:
        """POST `body` to a path below /api/v1 and read the answer. Raises envhub.errors, LeaseLost.

        traced: use False for calls made every few seconds, which would fill the trace.
        """
        return await self._send(path, body, reply, patience_s=patience_s, traced=traced)

    async def get(self, path: str, reply: type[Reply]) -> Reply:
        """GET a path below /api/v1. Raises envhub.errors, LeaseLost."""
        return await self._send(path, None, reply, method="GET")

    def absolute(self, url: str) -> str:
        """Resolve a URL from the hub's answers, which may be relative to it."""
        return urljoin(self.hub_url + "/", url)

    def authorization(self) -> Mapping[str, str]:
        """Return the header that authorises this attempt at the hub's data cache and indexes."""
        return {"Authorization": f"Bearer {self._token}"}

    async def _send(
        self,
        path: str,
        body: BaseModel | None,
        reply: type[Reply],
        *,
        patience_s: float | None = None,
        method: str = "POST",
        traced: bool = True,
    ) -> Reply:
        try:
            return await self.connection.send(
                method, API + path, self._token, reply, body, patience_s=patience_s, traced=traced
            )
        except errors.Conflict as error:
            if error.code == "stale_attempt":
                raise LeaseLost(error.message) from error
            raise
        except errors.NotAuthenticated as error:
            raise LeaseLost(f"the run token is no longer accepted: {error.message}") from error
