"""Stub model endpoints in a thread of their own, so that ordinary tests can script and break them while runs go on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

from tests.fakes.policy_endpoint import PolicyEndpoint

T = TypeVar("T")


class EndpointThread:
    """An event loop that serves any number of `PolicyEndpoint`s."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stub endpoints", daemon=True)
        self._open: list[PolicyEndpoint] = []
        self._thread.start()

    def open(self, endpoint: PolicyEndpoint) -> PolicyEndpoint:
        """Start serving; its `base_url` is known then."""
        self._open.append(self._call(endpoint.__aenter__()))
        return endpoint

    def close(self) -> None:
        """Stop them all."""
        for endpoint in self._open:
            self._call(endpoint.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)


@contextmanager
def in_thread(server: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """A server of any kind, in an event loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="server of a test", daemon=True)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(30)
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
