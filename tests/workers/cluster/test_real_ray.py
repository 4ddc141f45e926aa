"""A real head and a real second node on this machine: both come back when they are killed, and leave nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from envhub.protocol.placing.clusters import ClusterFacts, ClusterHead

from tests.fakes import nvidia_smi
from tests.workers.cluster.conftest import FakeHub, small
from workers.cluster.access import read_access
from workers.cluster.keeper import ClusterKeeper
from workers.cluster.releases import own_releases
from workers.inference.process import free_port
from workers.runs.children import PROC, Children, read_process
from workers.settings import WorkerEnvironment

pytest.importorskip("ray")
pytestmark = [pytest.mark.matrix, pytest.mark.usefixtures("quiet")]
TOKEN = "ab" * 32


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")
    yield
    for link in Path(tempfile.gettempdir()).glob("envhub-ray-*"):
        if link.readlink().is_relative_to(tmp_path):
            link.unlink()


@asynccontextmanager
async def kept(settings: WorkerEnvironment) -> AsyncIterator[ClusterKeeper]:
    keeper = ClusterKeeper(settings, Children(settings.folder("children")), lambda: None)
    task = asyncio.create_task(keeper.keep())
    keeper.joined(TOKEN)
    try:
        yield keeper
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def joined(hub: FakeHub, data: Path, gpus: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """`python -m workers.cluster join` on "another host", which has two GPUs."""
    environment = os.environ | {
        "WORKER_HUB_URL": hub.url,
        "WORKER_TOKEN": "hubw_x",
        "WORKER_DATA": str(data),
        "WORKER_RAY_OBJECTS_MB": "100",
        "PATH": f"{gpus}{os.pathsep}{os.environ['PATH']}",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers.cluster", "join", env=environment, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 20) == 0


async def until(keeper: ClusterKeeper, holds: Callable[[ClusterFacts], bool], seconds: float = 150) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not holds(keeper.facts):
                await asyncio.sleep(0.2)
    except TimeoutError:
        pytest.fail(f"the cluster is still {keeper.facts}")


def processes(*parts: str) -> list[int]:
    """Those whose command lines have all of the parts."""
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit() and read_process(int(entry.name)) is not None:
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
            if all(part in command for part in parts):
                found.append(int(entry.name))
    return found


def other_raylets(tmp_path: Path) -> set[int]:
    """Ray's daemon on the host that has joined."""
    return set(processes("raylet/raylet", str(tmp_path / "other")))


def shape(facts: ClusterFacts) -> list[tuple[int, ...]]:
    return [host.gpus for host in facts.hosts]


async def test_a_host_joins_a_head_and_both_come_back_after_a_kill(tmp_path: Path, hub: FakeHub) -> None:
    port, releases = free_port(), own_releases()
    settings = small(tmp_path / "head", ray_address="head", ray_port=port)
    address, gpus = f"127.0.0.1:{port}", tmp_path / "smi"
    with pytest.MonkeyPatch.context() as patch:
        nvidia_smi.install(gpus, patch)
    both: list[tuple[int, ...]] = [(), (80_000, 80_000)]
    hub.heads = (ClusterHead(name="gpu-0", address=address, token=TOKEN, ray=releases.ray, python=releases.python,
                             version=releases.software),)  # fmt: skip
    async with kept(settings) as keeper:
        await until(keeper, lambda facts: shape(facts) == [()])
        assert (keeper.facts.address, keeper.facts.problem) == (address, "")
        await asyncio.to_thread(refuses_strangers, settings)
        async with joined(hub, tmp_path / "other", gpus):
            await until(keeper, lambda facts: shape(facts) == both)
            assert hub.asked[0] == "Bearer hubw_x"
            assert not processes(TOKEN)  # in nobody's arguments
            first = other_raylets(tmp_path)
            for pid in first:
                os.kill(pid, signal.SIGKILL)
            await until(keeper, lambda facts: shape(facts) == both and bool(other_raylets(tmp_path) - first))
            for pid in processes("gcs/gcs_server", f"={port}"):
                os.kill(pid, signal.SIGKILL)
            await until(keeper, lambda facts: bool(facts.problem))
            await until(keeper, lambda facts: shape(facts) == both)
    assert not processes("ray", str(tmp_path)) + processes("ray", f"={port}")
    assert read_access(settings) is None


def refuses_strangers(settings: WorkerEnvironment) -> None:
    """In fresh processes: Ray remembers its token for as long as one lives."""
    access = read_access(settings)
    assert access is not None
    program = (
        "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1]).get_all_node_info(timeout=5)"
    )
    environment = access.environment(settings.folder("cluster"))
    for token, passes in ((TOKEN, True), ("cd" * 32, False), (None, False)):
        own = environment | ({"RAY_AUTH_TOKEN": token} if token else {"RAY_AUTH_MODE": "disabled"})
        own = own if token else {name: value for name, value in own.items() if name != "RAY_AUTH_TOKEN"}
        command = [sys.executable, "-c", program, access.address]
        done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode == 0) is passes, done.stderr
        assert passes or "InvalidAuthToken" in done.stderr
