"""Training runs over three hosts of a Ray cluster, by the real driver, engines and learner; hosts are killed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")
from tests.fakes.hub import FakeHub
from tests.workers.training.cluster.nodes import Nodes, started
from tests.workers.training.runs import trainings as making
from tests.workers.training.runs.striking import moments, pid_of
from tests.workers.training.runs.test_repeating import batches, final_weights
from tests.workers.training.runs.trainings import BARELY_WARM
from workers.cluster.access import ClusterAccess, write_access
from workers.settings import WorkerEnvironment
from workers.training.supervise.spread_source import RolloutHosts
from workers.venvs.environment import environment_key

pytestmark = [pytest.mark.matrix, pytest.mark.sandbox, pytest.mark.torch]
CONFIG: dict[str, Any] = {
    "max_steps": 4,
    "batch_size": 32,
    "rollouts_per_example": 4,
    "learning_rate": 1e-3,
    "sampling": {"max_tokens": 6},
    "env": [{"id": "alice/reverse-text", "timeout": 60}],
    "trainer": {"rank": 4, "token_budget": 4096, "hosts": 2, "engines": 3},
    "checkpoints": {"interval": 1},
}
SAME_BITS = {**CONFIG, "max_steps": 3, "trainer": {**CONFIG["trainer"], "deterministic": True, "engine": "torch"}}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with started(tmp_path_factory.mktemp("cluster"), 3) as made:
        yield made


@pytest.fixture
async def trainings(tmp_path: Path, nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    venv = making.installed()

    async def ready(*_: object, **__: object) -> Path:
        return Path(venv)

    monkeypatch.setattr("workers.training.coordinator.sources.ensure_environment", ready)
    async with FakeHub(lease_seconds=30) as hub:
        made = making.Trainings(hub, tmp_path, making.tiny_model(*BARELY_WARM))
        settings = WorkerEnvironment(data=tmp_path)
        write_access(settings, ClusterAccess(address=nodes.address))
        for number in range(len(nodes.others) + 1):  # what the patch above is for other processes
            kept = nodes.data(number) / "venvs" / "venvs"
            kept.mkdir(parents=True, exist_ok=True)
            lock = made.payload(**CONFIG).environments[0].lock
            if not (kept / environment_key(lock)).exists():
                (kept / environment_key(lock)).symlink_to(venv)
        yield made


async def test_a_run_uses_all_its_hosts_and_leaves_nothing_on_them(
    trainings: Any, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, given = RolloutHosts.ask, list[int]()

    async def counted(hosts: RolloutHosts, *what: Any) -> Any:
        records = await asked(hosts, *what)
        given.append(len(records))
        return records

    monkeypatch.setattr(RolloutHosts, "ask", counted)
    hosts = [nodes.data(number) for number in range(len(nodes.others) + 1)]
    for kept in (path for host in hosts for path in host.glob("cluster-runs/*")):  # on hosts that other tests killed
        shutil.rmtree(kept)
    steps = 40  # to open an environment on another host takes as long as some of them
    run = trainings.queue(trainings.payload(**{**CONFIG, "max_steps": steps}))
    finish = await trainings.run(run)
    assert finish is not None
    assert finish.state == "succeeded", run.log
    assert [step.step for step in trainings.steps()] == list(range(1, steps + 1))
    assert "3 of 3" in run.log
    assert set(given) == {4}, run.log  # whole groups, of the other host
    assert [path for host in hosts for path in host.glob("cluster-runs/*")] == []


async def test_a_host_without_an_engine_keeps_nothing_either(trainings: Any, nodes: Nodes) -> None:
    hosts = [nodes.data(number) for number in range(len(nodes.others) + 1)]
    for kept in (path for host in hosts for path in host.glob("cluster-runs/*")):
        shutil.rmtree(kept)
    trainer = {**CONFIG["trainer"], "engines": 1}
    run = trainings.queue(trainings.payload(**{**CONFIG, "max_steps": 3, "trainer": trainer}))
    finish = await trainings.run(run)
    assert finish is not None
    assert finish.state == "succeeded", run.log
    assert [path for host in hosts for path in host.glob("cluster-runs/*")] == []


def used_beside_the_head(nodes: Nodes, run_id: str) -> int:
    """The number of a host, not the head's, that has files of a run."""
    return next(
        number for number in range(1, len(nodes.others) + 1) if (nodes.data(number) / "cluster-runs" / run_id).exists()
    )


def strike(who: str, trainings: Any, nodes: Nodes, run_id: str) -> None:
    """Kill a host of the run, whole, or a process on its first."""
    if who == "host":
        nodes.kill(nodes.others[used_beside_the_head(nodes, run_id) - 1])
        return
    pid = pid_of(trainings, who)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, Any]:
    """Weights and batches of a run that nothing happened to, once there is one."""
    return {}


@pytest.mark.parametrize("who", ["host", "cluster driver", "learner"])
async def test_a_run_gives_the_same_bits_whatever_is_killed(
    trainings: Any, nodes: Nodes, undisturbed: dict[str, Any], who: str
) -> None:
    if not undisturbed:
        finish = await trainings.finish(**SAME_BITS)
        assert finish.state == "succeeded", trainings.hub.runs["r0"].log
        undisturbed.update(weights=final_weights(trainings), batches=batches(trainings))
        trainings.hub.training.clear()
    run = trainings.queue(trainings.payload(**SAME_BITS))
    task = asyncio.create_task(trainings.run(run))
    ready = moments(trainings)["after a batch was journaled"]
    while not ready() and not task.done():
        await asyncio.sleep(0.01)
    strike(who, trainings, nodes, run.id)
    try:
        finish = await task
    finally:
        if who == "host":
            nodes.add()
    assert finish is not None
    assert finish.state == "succeeded", run.log
    assert "starting it anew" in run.log
    assert (final_weights(trainings), batches(trainings)) == (undisturbed["weights"], undisturbed["batches"]), run.log
