"""Training runs over three hosts of a Ray cluster, by the real driver, engines and learner; hosts are killed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from typing import Any

import pytest

pytest.importorskip("ray")
from tests.workers.training.cluster.nodes import CONFIG, Nodes
from tests.workers.training.runs.striking import moments, pid_of
from tests.workers.training.runs.test_repeating import batches, final_weights
from workers.cluster.access import ClusterAccess, write_access
from workers.settings import WorkerEnvironment
from workers.training.supervise.spread_source import RolloutHosts

pytestmark = [pytest.mark.matrix, pytest.mark.sandbox, pytest.mark.torch]
SAME_BITS = {**CONFIG, "max_steps": 3, "trainer": {**CONFIG["trainer"], "deterministic": True, "engine": "torch"}}


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
    if who == "head":
        nodes.kill(nodes.cluster.head_node)
        return
    pid = pid_of(trainings, who)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, Any]:
    """Weights and batches of a run that nothing happened to, once there is one."""
    return {}


async def reference(trainings: Any, undisturbed: dict[str, Any]) -> dict[str, Any]:
    """What an undisturbed run gives, which is made once."""
    if not undisturbed:
        finish = await trainings.finish(**SAME_BITS)
        assert finish.state == "succeeded", trainings.hub.runs["r0"].log
        undisturbed.update(weights=final_weights(trainings), batches=batches(trainings))
        trainings.hub.training.clear()
    return undisturbed


async def struck(trainings: Any, nodes: Nodes, run: Any, who: str) -> Any:
    """Run it, strike after a batch was journaled, and return its end."""
    task = asyncio.create_task(trainings.run(run))
    ready = moments(trainings)["after a batch was journaled"]
    while not ready() and not task.done():
        await asyncio.sleep(0.01)
    strike(who, trainings, nodes, run.id)
    return await task


@pytest.mark.parametrize("who", ["host", "cluster driver", "learner"])
async def test_a_run_gives_the_same_bits_whatever_is_killed(
    trainings: Any, nodes: Nodes, undisturbed: dict[str, Any], who: str
) -> None:
    expected = await reference(trainings, undisturbed)
    run = trainings.queue(trainings.payload(**SAME_BITS))
    try:
        finish = await struck(trainings, nodes, run, who)
    finally:
        if who == "host":
            nodes.add()
    assert finish is not None
    assert finish.state == "succeeded", run.log
    assert "starting it anew" in run.log
    assert {"weights": final_weights(trainings), "batches": batches(trainings)} == expected, run.log


async def test_a_run_whose_clusters_head_is_lost_is_given_back_and_continued_bit_by_bit(
    trainings: Any, nodes: Nodes, undisturbed: dict[str, Any]
) -> None:
    expected = await reference(trainings, undisturbed)
    run = trainings.queue(trainings.payload(**SAME_BITS))
    try:
        finish = await struck(trainings, nodes, run, "head")
    finally:
        nodes.stop()
        nodes.start(3)
    assert finish is not None
    assert (finish.state, finish.failure.kind, finish.failure.code) == ("failed", "infrastructure", "cluster_lost")
    assert "does not answer" in finish.failure.message
    write_access(WorkerEnvironment(data=trainings.data), ClusterAccess(address=nodes.address))
    told = max((step.step for step in trainings.steps()), default=0)
    run.payload = trainings.payload(**SAME_BITS).model_copy(update={"reported_steps": told}).model_dump(mode="json")
    finish = await trainings.run(run)
    assert finish is not None
    assert finish.state == "succeeded", run.log
    assert {"weights": final_weights(trainings), "batches": batches(trainings)} == expected, run.log
