"""Runs that wait and forward: they ask the hub seldom, and learn of a cancel at once all the same."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.hub import FakeHub, FakeRun
from workers.runs.execution import Job
from workers.runs.hub import HubClient
from workers.settings import WorkerEnvironment
from workers.tasks.forwarding import HEARTBEAT_FACTOR, ForwardingRuns


async def forever(job: Job) -> None:
    while True:
        job.lease.progress(1, 2, "MB")
        await asyncio.sleep(0.01)


@pytest.fixture
async def hub() -> AsyncIterator[FakeHub]:
    async with FakeHub(lease_seconds=60.0) as server:
        yield server


async def test_a_run_beats_seldom_and_is_cancelled_when_it_is_told_to_hurry(hub: FakeHub, tmp_path: Path) -> None:
    settings = WorkerEnvironment(data=tmp_path, token="hubw_good", heartbeat_seconds=1.0, hub_patience_s=5)
    run, other = (hub.add(FakeRun(name, queue="sandbox")) for name in ("r", "other"))
    async with HubClient(hub.url, "hubw_good", patience_s=5) as client:
        beside = ForwardingRuns("sandbox", forever, 2, settings, client)
        assert not beside.any_run
        beside.take(("r", "other", "none"), "w1")
        await asyncio.sleep(1.5)
        assert (beside.any_run, beside.room) == (True, 0)
        assert run.progress == []  # others have beaten once
        run.cancel = True
        beside.hurry(("r", "nothing"))
        async with asyncio.timeout(0.6 * HEARTBEAT_FACTOR):  # before a beat of its own
            await run.done.wait()
        assert run.finish is not None
        assert (run.finish.state, other.finish) == ("cancelled", None)
        await beside.stop()
    assert not beside.any_run


async def test_runs_that_stop_ask_for_no_more(hub: FakeHub, tmp_path: Path) -> None:
    hub.add(FakeRun("r", queue="sandbox"))
    async with HubClient(hub.url, "hubw_good", patience_s=5) as client:
        beside = ForwardingRuns("sandbox", forever, 2, WorkerEnvironment(data=tmp_path, token="hubw_good"), client)
        assert beside.room == 2
        await beside.stop()
        beside.take(("r",), "w1")
    assert (beside.any_run, beside.room) == (False, 0)


async def test_a_run_has_the_cpu_time_that_its_body_counts_and_not_that_of_the_host_process(
    hub: FakeHub, tmp_path: Path
) -> None:
    async def body(job: Job) -> None:
        program = await asyncio.create_subprocess_exec(sys.executable, "-S", "-c", "sum(range(10**6))")
        await program.wait()
        if job.claim.run_id == "counted":
            job.lease.spent_s = lambda: 2.5

    settings = WorkerEnvironment(data=tmp_path, token="hubw_good", hub_patience_s=5)
    runs = [hub.add(FakeRun(name, queue="sandbox")) for name in ("counted", "uncounted")]
    async with HubClient(hub.url, "hubw_good", patience_s=5) as client:
        beside = ForwardingRuns("sandbox", body, 2, settings, client)
        beside.take(("counted", "uncounted"), "w1")
        async with asyncio.timeout(20):
            await asyncio.gather(*(run.done.wait() for run in runs))
        await beside.stop()
    assert [run.finish and run.finish.cpu_seconds for run in runs] == [2.5, 0.0]
