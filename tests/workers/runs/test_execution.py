"""From claim to finish: every way in which a run can end is told to the hub once; a lost lease is told never."""

from __future__ import annotations

import asyncio
import errno
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from envhub.errors import TooLarge
from envhub.protocol.runs import EngineCounts, FailureKind

from tests.fakes.hub import FakeHub, FakeRun
from workers.runs import execution
from workers.runs.errors import RunFailed
from workers.runs.execution import Body, Job, execute
from workers.runs.hub import HubClient
from workers.runs.processors import Processors
from workers.settings import WorkerEnvironment


@pytest.fixture
async def hub() -> AsyncIterator[FakeHub]:
    async with FakeHub(lease_seconds=0.6) as server:
        yield server


async def finish_of(hub: FakeHub, run: FakeRun, body: Body, data: Path, stop: asyncio.Event | None = None) -> None:
    settings = WorkerEnvironment(data=data, heartbeat_seconds=0.05, run_limit_s=3, hub_patience_s=5)
    async with HubClient(hub.url, "hubw_good", patience_s=settings.hub_patience_s) as client:
        await execute(client, hub.claim(run), body, settings, stop or asyncio.Event(), spent_s=Processors().seconds)


async def forever(job: Job) -> None:
    await asyncio.sleep(3600)


async def test_a_body_that_returns_has_succeeded(hub: FakeHub, tmp_path: Path) -> None:
    async def body(job: Job) -> None:
        job.lease.mask("s3cret")
        job.lease.log("one s3cret")
        job.lease.progress(1, 2, "rollouts")
        await asyncio.sleep(0.2)

    run = hub.add(FakeRun("r"))
    await finish_of(hub, run, body, tmp_path)
    assert run.finish is not None
    assert run.finish.state == "succeeded"
    assert run.log == "one ***\n"
    assert run.progress[-1].done == 1


async def test_the_engines_of_a_training_run_are_told_as_they_are_now(hub: FakeHub, tmp_path: Path) -> None:
    serving = iter(range(1, 1000))

    async def body(job: Job) -> None:
        job.lease.engines = lambda: EngineCounts(serving=next(serving))
        job.lease.progress(1, 2, "steps")
        await asyncio.sleep(0.3)

    run = hub.add(FakeRun("r"))
    await finish_of(hub, run, body, tmp_path)
    told = [progress.engines.serving for progress in run.progress if progress.engines is not None]
    assert len(told) > 1
    assert told == sorted(set(told))


async def test_what_its_programs_took_of_processors_is_told_at_the_end(hub: FakeHub, tmp_path: Path) -> None:
    burn = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"

    async def body(job: Job) -> None:
        for _ in range(2):
            program = await asyncio.create_subprocess_exec(sys.executable, "-S", "-c", burn)
            await program.wait()

    run = hub.add(FakeRun("r"))
    await finish_of(hub, run, body, tmp_path)
    assert run.finish is not None
    assert run.finish.cpu_seconds >= 0.6


async def test_what_a_program_has_had_so_far_is_told_while_it_runs(hub: FakeHub, tmp_path: Path) -> None:
    run = hub.add(FakeRun("r"))

    async def body(job: Job) -> None:
        program = await asyncio.create_subprocess_exec(sys.executable, "-S", "-c", "while True: pass")
        while max(run.cpu_seconds, default=0.0) < 0.1:
            await asyncio.sleep(0.02)
            await job.lease.beat()
        program.kill()
        await program.wait()

    await finish_of(hub, run, body, tmp_path)
    assert run.finish is not None
    assert run.cpu_seconds == sorted(run.cpu_seconds)
    assert run.finish.cpu_seconds >= run.cpu_seconds[-1] >= 0.1


async def test_a_typed_failure_arrives_as_it_is(hub: FakeHub, tmp_path: Path) -> None:
    async def body(job: Job) -> None:
        raise RunFailed.because(FailureKind.ENVIRONMENT, "no_load_environment", "nothing", "add it")

    run = hub.add(FakeRun("r"))
    await finish_of(hub, run, body, tmp_path)
    assert run.finish is not None
    assert run.finish.failure is not None
    assert run.finish.failure.code == "no_load_environment"


async def test_a_full_storage_of_the_owner_is_a_limit_with_what_to_do(hub: FakeHub, tmp_path: Path) -> None:
    async def body(job: Job) -> None:
        raise TooLarge("storage is full", code="quota_exceeded", hint="delete something")

    run = hub.add(FakeRun("r"))
    await finish_of(hub, run, body, tmp_path)
    assert run.finish is not None
    failure = run.finish.failure
    assert failure is not None
    assert (failure.kind, failure.code, failure.hint) == ("limit", "quota_exceeded", "delete something")


async def test_a_bug_of_the_worker_is_infrastructure_with_its_traceback_in_the_log(
    hub: FakeHub, tmp_path: Path
) -> None:
    async def body(job: Job) -> None:
        raise ZeroDivisionError

    run = hub.add(FakeRun("r"))
    await finish_of(hub, run, body, tmp_path)
    assert run.finish is not None
    assert run.finish.failure is not None
    assert (run.finish.failure.kind, run.finish.failure.code) == ("infrastructure", "worker_error")
    assert "ZeroDivisionError" in run.log


async def test_a_full_disk_is_named_with_what_to_do(hub: FakeHub, tmp_path: Path) -> None:
    async def body(job: Job) -> None:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise ValueError("the report could not be written") from error

    run = hub.add(FakeRun("r"))
    await finish_of(hub, run, body, tmp_path)
    assert run.finish is not None
    failure = run.finish.failure
    assert failure is not None
    assert (failure.kind, failure.code) == ("infrastructure", "worker_disk_full")
    assert "WORKER_DATA" in failure.hint


async def test_a_cancelled_run_ends_within_a_second(hub: FakeHub, tmp_path: Path) -> None:
    run = hub.add(FakeRun("r"))
    task = asyncio.create_task(finish_of(hub, run, forever, tmp_path))
    await asyncio.sleep(0.3)
    run.cancel = True
    await asyncio.wait_for(task, 1)
    assert run.finish is not None
    assert run.finish.state == "cancelled"


async def test_a_stopping_worker_gives_the_run_back(hub: FakeHub, tmp_path: Path) -> None:
    run, stop = hub.add(FakeRun("r")), asyncio.Event()
    task = asyncio.create_task(finish_of(hub, run, forever, tmp_path, stop))
    await asyncio.sleep(0.2)
    stop.set()
    await asyncio.wait_for(task, 30)
    assert run.finish is not None
    assert run.finish.failure is not None
    assert (run.finish.state, run.finish.failure.code) == ("queued", "worker_stopping")


async def test_a_lost_lease_stops_the_body_and_says_nothing(hub: FakeHub, tmp_path: Path) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def body(job: Job) -> None:
        begun.set()
        try:
            await forever(job)
        finally:
            stopped.set()

    run = hub.add(FakeRun("r"))
    task = asyncio.create_task(finish_of(hub, run, body, tmp_path))
    await begun.wait()
    run.attempt += 1
    await task
    assert stopped.is_set()
    assert run.finish is None


async def test_a_lease_is_held_over_a_proxys_page_in_the_hubs_place(hub: FakeHub, tmp_path: Path) -> None:
    run = hub.add(FakeRun("r"))

    async def body(job: Job) -> None:
        hub.covered = True
        await asyncio.sleep(0.2)  # several heartbeats
        hub.covered = False
        run.cancel = True  # what only a heartbeat can tell
        await forever(job)

    await finish_of(hub, run, body, tmp_path)
    assert run.finish is not None
    assert run.finish.state == "cancelled"


async def test_start_log_and_end_are_said_again_while_a_proxys_page_is_all_that_answers(
    hub: FakeHub, tmp_path: Path
) -> None:
    run = hub.add(FakeRun("r"))

    async def body(job: Job) -> None:
        assert run.state == "running"
        hub.covered = True
        job.lease.log("a line")
        await asyncio.sleep(0.6)  # the log was sent once meanwhile, and the proxy said 200

    hub.covered = True
    task = asyncio.create_task(finish_of(hub, run, body, tmp_path))
    for state in ("running", "succeeded"):
        await asyncio.sleep(0.7)
        assert run.state != state
        hub.covered = False
        async with asyncio.timeout(5):
            while run.state != state:
                await asyncio.sleep(0.01)
    await task
    assert "a line" in run.log


async def test_a_run_beyond_the_time_limit_is_stopped(hub: FakeHub, tmp_path: Path) -> None:
    run = hub.add(FakeRun("r"))
    await finish_of(hub, run, forever, tmp_path)
    assert run.finish is not None
    assert run.finish.failure is not None
    assert (run.finish.failure.kind, run.finish.failure.code) == ("limit", "run_time_limit")


async def test_a_run_beyond_the_time_limit_has_time_to_save_something_too(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "CLEANUP_S", 0.05)
    saved = []

    async def body(job: Job) -> None:
        job.lease.farewell_s = 60.0
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.5)
            saved.append(job.lease.cancelled.is_set())

    run = hub.add(FakeRun("r"))
    await finish_of(hub, run, body, tmp_path)
    assert saved == [True]
    assert run.finish is not None
    assert run.finish.failure is not None
    assert (run.finish.failure.code, "resume" in run.finish.failure.hint) == ("run_time_limit", True)


async def test_a_hub_that_is_away_for_a_while_loses_nothing(
    hub: FakeHub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def beats() -> list[str]:
        return [line for line in caplog.messages if line.startswith("heartbeat")]

    async def body(job: Job) -> None:
        job.lease.log("before")
        hub.away = True
        job.lease.log("during")
        await asyncio.sleep(0.5)
        asyncio.get_running_loop().call_later(0.5, lambda: setattr(hub, "away", False))
        await job.artifacts.upload_bytes(b"result")
        async with asyncio.timeout(10):
            while len(beats()) < 2:
                await asyncio.sleep(0.01)

    run = hub.add(FakeRun("r"))
    await finish_of(hub, run, body, tmp_path)
    assert run.finish is not None
    assert run.finish.state == "succeeded"
    assert run.log == "before\nduring\n"
    assert b"result" in hub.blobs.values()
    assert len(beats()) == 2, "one line when the hub is away, one when it is back"


async def test_a_body_that_asks_for_it_has_time_to_save_something_after_a_cancel(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "CLEANUP_S", 0.05)
    saved = []

    async def body(job: Job) -> None:
        job.lease.farewell_s = 60.0
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.5)
            saved.append(job.lease.cancelled.is_set())

    run = hub.add(FakeRun("r", cancel=True))
    await finish_of(hub, run, body, tmp_path)
    assert saved == [True]
    assert run.finish is not None
    assert run.finish.state == "cancelled"


async def test_a_worker_that_stops_does_not_wait_for_what_a_cancelled_body_saves(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "CLEANUP_S", 0.05)
    stop = asyncio.Event()

    async def body(job: Job) -> None:
        job.lease.farewell_s = 3600.0
        try:
            await asyncio.sleep(3600)
        finally:
            stop.set()
            await asyncio.sleep(3600)

    run = hub.add(FakeRun("r", cancel=True))
    await finish_of(hub, run, body, tmp_path, stop)
    assert run.finish is not None
    assert run.finish.state == "cancelled"
