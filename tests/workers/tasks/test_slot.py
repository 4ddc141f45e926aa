"""A slot's loop: orders in, answers out, and a SIGTERM that is never lost."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from collections.abc import Iterator

import pytest

from workers.settings import WorkerEnvironment
from workers.tasks import slot

ORDER = slot.Order(run_id="r1", worker_id="w1").model_dump_json() + "\n"


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def settings() -> WorkerEnvironment:
    return WorkerEnvironment(hub_url="http://127.0.0.1:9", token="hubw_good")


def test_a_stop_that_comes_while_a_run_ends_is_heeded(
    monkeypatch: pytest.MonkeyPatch, settings: WorkerEnvironment
) -> None:
    async def perform(order: slot.Order, settings: WorkerEnvironment, on_stop: slot.StopSignal) -> bool:
        stop = asyncio.Event()
        on_stop.tell = lambda: asyncio.get_running_loop().call_soon_threadsafe(stop.set)
        os.kill(os.getpid(), signal.SIGTERM)
        return True  # without another look at `stop`

    monkeypatch.setattr(slot, "perform", perform)
    replies = io.StringIO()
    slot.serve(settings, io.StringIO(ORDER * 2), replies)
    assert replies.getvalue().count("\n") == 1


def test_an_idle_slot_leaves_at_once(settings: WorkerEnvironment) -> None:
    class Waiting(io.StringIO):
        def readline(self, *_: object) -> str:
            os.kill(os.getpid(), signal.SIGTERM)
            raise AssertionError("SIGTERM was lost")

    with pytest.raises(SystemExit):
        slot.serve(settings, Waiting(), io.StringIO())
