"""The runner's event loop, where it is the runner's own."""

from __future__ import annotations

import asyncio
import threading

import pytest
from envhub.runner.forks import new_event_loop


def test_work_for_a_thread_that_is_cancelled_while_it_waits_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    loop, go = new_event_loop(), threading.Event()

    async def work() -> None:
        busy = [loop.run_in_executor(None, go.wait) for _ in range(64)]  # more than there are threads
        await asyncio.sleep(0)
        assert busy[-1].cancel()
        await asyncio.sleep(0.05)
        go.set()
        await asyncio.wait(busy)

    try:
        loop.run_until_complete(work())
    finally:
        loop.close()
    assert not caplog.records
