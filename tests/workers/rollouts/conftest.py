"""A stub endpoint with an interceptor before it, reached over its unix socket like from a box."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from envhub.protocol.models.catalog import EndpointKind, EndpointTarget, OutboundPolicy, TargetVariant

from tests.fakes.policy_endpoint import PolicyEndpoint
from workers.rollouts.interceptor.connections import open_endpoint
from workers.rollouts.interceptor.endpoint import Endpoint
from workers.rollouts.interceptor.server import Interceptor

HELLO = {"model": "whatever", "messages": [{"role": "user", "content": "hi"}]}


def target(
    *urls: str, kind: EndpointKind = EndpointKind.OPENAI, retries: int = 2, timeout: float = 5
) -> EndpointTarget:
    """A registered model with one variant for each URL."""
    variants = tuple(
        TargetVariant(
            kind=kind, base_url=url, model="stub", api_key="sk-very-secret", timeout_s=timeout, max_retries=retries
        )
        for url in urls
    )
    return EndpointTarget(model="alice/stub", variants=variants, outbound=OutboundPolicy(allow_loopback=True))


@asynccontextmanager
async def quick_endpoint(*urls: str, trace_hosts: tuple[str, ...] = (), **options: Any) -> AsyncIterator[Endpoint]:
    """An endpoint that does not wait long between tries."""
    async with open_endpoint(target(*urls, **options), trace_hosts=trace_hosts) as endpoint:
        endpoint._first_pause_s = 0.01
        yield endpoint


@dataclass
class Box:
    """What a box sees of the interceptor."""

    interceptor: Interceptor
    http: aiohttp.ClientSession

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        """POST JSON; status and parsed answer (text for event streams)."""
        async with self.http.post(f"http://box{path}", json=body) as response:
            if response.content_type == "text/event-stream":
                return response.status, await response.text()
            return response.status, await response.json(content_type=None)


@pytest.fixture
async def stub() -> AsyncIterator[PolicyEndpoint]:
    async with PolicyEndpoint() as endpoint:
        yield endpoint


OpenBox = Callable[[Interceptor], AbstractAsyncContextManager[Box]]


@pytest.fixture
def open_box(tmp_path: Path) -> OpenBox:
    """Serve an interceptor on a socket and connect to it."""

    @asynccontextmanager
    async def open_(interceptor: Interceptor) -> AsyncIterator[Box]:
        socket = tmp_path / "gateway.sock"
        connector = aiohttp.UnixConnector(path=str(socket))
        async with interceptor.serve(socket), aiohttp.ClientSession(connector=connector) as http:
            yield Box(interceptor, http)

    return open_


@pytest.fixture
async def box(stub: PolicyEndpoint, open_box: OpenBox) -> AsyncIterator[Box]:
    """A box whose policy is the stub."""
    async with quick_endpoint(stub.base_url) as endpoint, open_box(Interceptor(endpoint)) as opened:
        yield opened
