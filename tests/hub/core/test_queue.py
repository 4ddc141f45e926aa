"""A broker never holds up whoever queues a run."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import transaction

from hub.core import queue
from hub.core.errors import Unavailable


@pytest.fixture
def silent_broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Redis that takes connections and never answers, as behind a broken network."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"redis://127.0.0.1:{server.getsockname()[1]}/0"
        monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update={"broker_url": url}))
        monkeypatch.setattr(queue, "SOCKET_TIMEOUT_S", 0.1)
        queue.celery_app.cache_clear()
        yield
        queue.celery_app.cache_clear()


@pytest.mark.django_db(transaction=True)
def test_a_broker_that_hangs_costs_a_moment(silent_broker: None) -> None:
    began = time.monotonic()
    assert not queue.send("workers.run", "one", queue="eval.w", task_id="one.1.1", label="run.eval", headers={})
    with transaction.atomic():
        queue.revoke_on_commit(["one.1.1"])
    with pytest.raises(Unavailable):
        queue.check_broker()
    assert time.monotonic() - began < 15
