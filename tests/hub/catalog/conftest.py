"""A real model endpoint beside the synchronous code under test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tests.fakes.policy_endpoint import PolicyEndpoint


@pytest.fixture
def endpoint() -> Iterator[PolicyEndpoint]:
    """A stub endpoint on its own thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = PolicyEndpoint()
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
    yield server
    asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()
