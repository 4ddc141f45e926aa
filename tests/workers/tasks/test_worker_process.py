"""`python -m workers` as a process: gets runs by Celery, gives them back when stopped, cleans up after a kill -9."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from envhub.protocol.registry.builds import LockedWheel
from envhub.protocol.runs import RunKind

from tests.fakes.hub import FakeHub, FakeRun
from tests.fakes.policy_endpoint import PolicyEndpoint
from tests.workers.evals.conftest import Evaluations
from workers.runs.children import read_process

ONE_SLOT = {"WORKER_SLOTS": '{"eval": 1}'}  # each is a process that takes seconds of CPU to start


@asynccontextmanager
async def worker(hub: FakeHub, data: Path, **extra: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker process for `hub`."""
    env = os.environ | {"WORKER_HUB_URL": hub.url, "WORKER_TOKEN": "hubw_good", "WORKER_DATA": str(data)} | extra
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers", env=env, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            await asyncio.wait_for(process.communicate(), 40)


async def until(condition: Callable[[], object], seconds: float = 30) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.05)


def hanging(hub: FakeHub, stub: PolicyEndpoint, data: Path) -> FakeRun:
    """An evaluation that waits for a wheel which never comes."""
    payload = Evaluations(hub, stub, data).payload()
    wheel = LockedWheel(name="x", version="1", filename="x-1-py3-none-any.whl", sha256="0" * 64, size=1, url="/hang")
    lock = payload.lock.model_copy(update={"wheels": (wheel,)})
    payload = payload.model_copy(update={"lock": lock})
    return hub.add(FakeRun("hanging", payload=payload.model_dump(mode="json")))


@pytest.fixture
async def hub() -> AsyncIterator[FakeHub]:
    async with FakeHub(lease_seconds=30) as server:
        yield server


@pytest.fixture
async def stub() -> AsyncIterator[PolicyEndpoint]:
    async with PolicyEndpoint() as server:
        yield server


async def test_runs_come_by_the_broker_a_refused_kind_is_said_so_and_no_other_worker_shares_its_directory(
    hub: FakeHub, tmp_path: Path
) -> None:
    run = hub.add(FakeRun("r1", kind=RunKind.SERVE))
    async with worker(hub, tmp_path):
        await asyncio.wait_for(run.done.wait(), 30)
        async with worker(hub, tmp_path, **ONE_SLOT) as other:
            _, text = await other.communicate()
        assert (other.returncode, b"another worker" in text) == (2, True)
        second = hub.add(FakeRun("r2", kind=RunKind.SERVE))
        await asyncio.wait_for(second.done.wait(), 5)
    assert run.finish is not None
    assert run.finish.failure is not None
    assert run.finish.failure.code == "unknown_kind"
    assert hub.joins[0].slots == {"build": 1, "eval": 1, "train": 1}


@pytest.mark.matrix
async def test_a_worker_waits_for_a_hub_that_is_away_and_comes_back(hub: FakeHub, tmp_path: Path) -> None:
    hub.away = True
    run = hub.add(FakeRun("r1", kind=RunKind.SERVE))
    async with worker(hub, tmp_path, **ONE_SLOT):
        await asyncio.sleep(2)
        hub.away = False
        await asyncio.wait_for(run.done.wait(), 30)


async def test_a_message_that_is_late_or_doubled_costs_nothing_nor_does_the_death_of_an_idle_child(
    hub: FakeHub, tmp_path: Path
) -> None:
    hub.beat_seconds = 600.0  # but after a run that was claimed
    async with worker(hub, tmp_path, **ONE_SLOT) as process:
        await until(lambda: any(beat.room.get("eval") for beat in hub.beats))
        ended = hub.add(FakeRun("ended", kind=RunKind.SERVE, state="succeeded"))
        run = hub.add(FakeRun("r1", kind=RunKind.SERVE))
        for message in (ended, run, run, ended):
            hub.send(message)
        await asyncio.wait_for(run.done.wait(), 30)
        again = hub.add(FakeRun("r2", kind=RunKind.SERVE))
        hub.send(again)
        await asyncio.wait_for(again.done.wait(), 30)
        os.kill(idle_child(process.pid), signal.SIGKILL)
        after = hub.add(FakeRun("r3", kind=RunKind.SERVE))
        hub.send(after)
        await asyncio.wait_for(after.done.wait(), 30)
    assert (run.attempt, again.attempt, ended.attempt) == (1, 1, 0)


def idle_child(worker: int) -> int:
    """The only process that runs the worker's tasks."""
    (child,) = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit()
        and (row := read_process(int(entry.name))) is not None
        and row.parent == worker
        and b"workers.tasks.host" not in (entry / "cmdline").read_bytes()
    ]
    return child


@pytest.mark.parametrize(
    "broker", ["redis://127.0.0.1:1/0", pytest.param("filesystem://localhost", marks=pytest.mark.matrix)]
)
async def test_a_worker_that_cannot_reach_the_broker_gets_its_runs_from_the_hub(tmp_path: Path, broker: str) -> None:
    async with FakeHub(broker_url=broker, broker_options={"data_folder_in": str(tmp_path / "elsewhere")}) as hub:
        run = hub.add(FakeRun("r1", kind=RunKind.SERVE))
        async with worker(hub, tmp_path / "data", **ONE_SLOT):
            await asyncio.wait_for(run.done.wait(), 30)
        assert hub.beats[-1].answer


async def test_a_run_beyond_the_room_is_refused_and_sigterm_gives_the_running_one_back(
    hub: FakeHub, stub: PolicyEndpoint, tmp_path: Path
) -> None:
    run = hanging(hub, stub, tmp_path)
    async with worker(hub, tmp_path / "data", WORKER_SLOTS='{"eval": 1, "build": 1}') as process:
        await until(lambda: run.state == "running")
        more = hub.add(FakeRun("more", payload=run.payload))
        hub.send(more)
        await until(lambda: any("more" in beat.refused for beat in hub.beats))
        assert (more.state, more.attempt) == ("queued", 0)
        process.terminate()
        await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0
    assert run.finish is not None
    assert run.finish.failure is not None
    assert run.finish.failure.code == "worker_stopping"


async def test_nothing_is_left_after_kill_9_and_a_new_start(hub: FakeHub, stub: PolicyEndpoint, tmp_path: Path) -> None:
    run = hanging(hub, stub, tmp_path)
    data = tmp_path / "data"
    async with worker(hub, data, **ONE_SLOT) as process:
        await until(lambda: run.state == "running")
        children = [int(path.stem) for path in (data / "children").glob("*.json")]
        process.send_signal(signal.SIGKILL)
        await process.communicate()
    assert children
    async with worker(hub, data, **ONE_SLOT):
        await until(lambda: len(hub.joins) == 2)
        await until(lambda: all(read_process(pid) is None for pid in children))


def started(data: Path, what: str) -> int:
    """The process of a worker's records."""
    (path,) = [path for path in (data / "children").glob("*.json") if what in path.read_text()]
    return int(path.stem)


@pytest.mark.matrix
async def test_a_child_that_is_killed_at_work_is_replaced(hub: FakeHub, stub: PolicyEndpoint, tmp_path: Path) -> None:
    run = hanging(hub, stub, tmp_path)
    async with worker(hub, tmp_path / "data", **ONE_SLOT):
        await until(lambda: run.state == "running")
        os.kill(started(tmp_path / "data", "eval run"), signal.SIGKILL)
        other = hub.add(FakeRun("r2", kind=RunKind.SERVE))
        await asyncio.wait_for(other.done.wait(), 30)


async def test_without_its_host_process_a_worker_gives_its_runs_back_and_starts_anew(
    hub: FakeHub, stub: PolicyEndpoint, tmp_path: Path
) -> None:
    run = hanging(hub, stub, tmp_path)
    async with worker(hub, tmp_path / "data", **ONE_SLOT) as process:
        await until(lambda: run.state == "running")
        os.kill(started(tmp_path / "data", "host process"), signal.SIGKILL)
        await asyncio.wait_for(run.done.wait(), 10)
        run.state = "cancelled"  # else it comes again
        other = hub.add(FakeRun("r2", kind=RunKind.SERVE))
        await asyncio.wait_for(other.done.wait(), 30)
        assert process.returncode is None
    assert run.finish is not None
    assert run.finish.state == "queued"


@pytest.mark.matrix
async def test_what_does_not_stop_in_time_is_ended(hub: FakeHub, stub: PolicyEndpoint, tmp_path: Path) -> None:
    run = hanging(hub, stub, tmp_path)
    data = tmp_path / "data"
    async with worker(hub, data, **ONE_SLOT, WORKER_STOP_GRACE_S="1") as process:
        await until(lambda: run.state == "running")
        os.kill(started(data, "eval run"), signal.SIGSTOP)
        process.terminate()
        await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0
    assert not list((data / "children").glob("*.json"))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("WORKER_SLOTS", "many"),
        pytest.param("WORKER_SANDBOXES", "none", marks=pytest.mark.matrix),
        pytest.param("WORKER_BEAT_SECONDS", "-1", marks=pytest.mark.matrix),
    ],
)
async def test_a_bad_setting_stops_the_worker_and_names_itself(tmp_path: Path, variable: str, value: str) -> None:
    async with worker(FakeHub(url="http://127.0.0.1:9"), tmp_path, **{variable: value}) as process:
        _, text = await process.communicate()
    assert process.returncode == 2
    assert variable.rpartition("_")[2].lower() in text.decode().lower()
