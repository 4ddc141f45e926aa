"""The hub on a port, and nothing remembered of who could be reached."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from django.conf import settings

from hub.core.requests.handler import ThreadedHandler
from hub.data import reach
from hub.storage.queries import backend


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    yield
    reach.forget()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The hub's own server, which streams as Django's for tests does not; it signs URLs of itself."""
    server = uvicorn.Server(uvicorn.Config(ThreadedHandler(), port=0, lifespan="off", log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    hub = settings.HUB.model_copy(update={"base_url": type(settings.HUB.base_url)(url)})
    monkeypatch.setattr(settings, "HUB", hub)
    backend.cache_clear()
    yield url
    backend.cache_clear()
    server.should_exit = True
    thread.join()
