"""The one HTTP client for URLs that users give (model endpoints, webhooks), in the hub and on workers.

It resolves a name once, connects to exactly the address that was checked (a second DNS answer is never asked for) or
goes by the operator's proxy (envhub.client.outside.ways), and follows no redirect. Refusals are OutboundRefused.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import httpx

from envhub.client.outside.addresses import OutboundRefused, Resolver, resolve
from envhub.client.outside.ways import way
from envhub.protocol.models.catalog import OutboundPolicy

__all__ = ["OutboundPolicy", "OutboundRefused", "async_client", "client"]


DEFAULT_LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20)


def client(
    policy: OutboundPolicy, *, resolver: Resolver = resolve, limits: httpx.Limits = DEFAULT_LIMITS, **options: Any
) -> httpx.Client:
    """A synchronous client; `options` are httpx.Client's, except transport, redirects, proxies; limits are per host."""
    transport = PinnedTransport(policy, resolver, limits)
    return httpx.Client(transport=transport, follow_redirects=False, trust_env=False, **options)


def async_client(
    policy: OutboundPolicy, *, resolver: Resolver = resolve, limits: httpx.Limits = DEFAULT_LIMITS, **options: Any
) -> httpx.AsyncClient:
    """An asynchronous client; the rest as for `client`."""
    transport = AsyncPinnedTransport(policy, resolver, limits)
    return httpx.AsyncClient(transport=transport, follow_redirects=False, trust_env=False, **options)


@cache
def _tls() -> ssl.SSLContext:
    """Reading the authorities takes tens of milliseconds: once a process, not once a host."""
    return httpx.create_ssl_context()


def _pinned(request: httpx.Request, addresses: Iterable[str]) -> Iterator[httpx.Request]:
    """The request once for each address: same Host header, and TLS verified for the name, not the address."""
    for address in addresses:
        yield httpx.Request(
            method=request.method,
            url=request.url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": request.url.host},
        )


class PinnedTransport(httpx.BaseTransport):
    """One connection pool a host name: a connection that was verified for one name never serves another."""

    def __init__(self, policy: OutboundPolicy, resolver: Resolver, limits: httpx.Limits) -> None:
        self._policy = policy
        self._resolver = resolver
        self._limits = limits
        self._pools: dict[tuple[str, str | None], httpx.HTTPTransport] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send to the checked addresses in turn until one accepts the connection, or to the proxy."""
        found = way(self._policy, str(request.url), resolver=self._resolver)
        pool = self._pool(request.url.host, found.proxy)
        if found.proxy:
            return pool.handle_request(request)
        failure: httpx.ConnectError | None = None
        for pinned in _pinned(request, found.addresses):
            try:
                return pool.handle_request(pinned)
            except httpx.ConnectError as error:
                failure = error
        assert failure is not None
        raise failure

    def _pool(self, host: str, proxy: str | None) -> httpx.HTTPTransport:
        if (host, proxy) not in self._pools:
            self._pools[host, proxy] = httpx.HTTPTransport(verify=_tls(), limits=self._limits, proxy=proxy)
        return self._pools[host, proxy]

    def close(self) -> None:
        """Close every pool."""
        for pool in self._pools.values():
            pool.close()


class AsyncPinnedTransport(httpx.AsyncBaseTransport):
    """The same for asyncio; names are resolved in a thread."""

    def __init__(self, policy: OutboundPolicy, resolver: Resolver, limits: httpx.Limits) -> None:
        self._policy = policy
        self._resolver = resolver
        self._limits = limits
        self._pools: dict[tuple[str, str | None], httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send to the checked addresses in turn until one accepts the connection."""
        found = await asyncio.to_thread(way, self._policy, str(request.url), resolver=self._resolver)
        pool = self._pool(request.url.host, found.proxy)
        if found.proxy:
            return await pool.handle_async_request(request)
        failure: httpx.ConnectError | None = None
        for pinned in _pinned(request, found.addresses):
            try:
                return await pool.handle_async_request(pinned)
            except httpx.ConnectError as error:
                failure = error
        assert failure is not None
        raise failure

    def _pool(self, host: str, proxy: str | None) -> httpx.AsyncHTTPTransport:
        if (host, proxy) not in self._pools:
            self._pools[host, proxy] = httpx.AsyncHTTPTransport(verify=_tls(), limits=self._limits, proxy=proxy)
        return self._pools[host, proxy]

    async def aclose(self) -> None:
        """Close every pool."""
        for pool in self._pools.values():
            await pool.aclose()
