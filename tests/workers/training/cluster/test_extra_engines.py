"""Engines that join and leave a run: hosts that come, die, or are wanted by another run."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("ray")
from tests.workers.training.cluster.nodes import CONFIG, Nodes

pytestmark = [pytest.mark.matrix, pytest.mark.sandbox, pytest.mark.torch]
MANY = {
    **CONFIG,
    "max_steps": 100_000,
    "trainer": {**CONFIG["trainer"], "engines": 2, "extra_engines": 1, "max_off_policy": 2},
    "checkpoints": {"interval": 1000},
}
# another run, for which only the third host has room, without the extra engine
OTHER = """
import sys, ray
from ray.util.placement_group import placement_group
ray.init(address=sys.argv[1], namespace="other", log_to_driver=False)
ray.get(placement_group([{"CPU": 3.5}]).ready())
print("placed", flush=True)
sys.stdin.read()
"""


async def said(run: Any, text: str, times: int = 1, seconds: float = 600) -> None:
    """Wait for a line of the run's log."""
    try:
        async with asyncio.timeout(seconds):
            while run.log.count(text) < times:
                assert run.finish is None, run.log
                await asyncio.sleep(0.1)
    except TimeoutError:
        pytest.fail(f"{text!r} was not said {times} times: {run.log}")


async def test_engines_come_with_hosts_and_leave_when_a_host_dies_or_is_wanted(trainings: Any, nodes: Nodes) -> None:
    nodes.kill(nodes.others[-1])
    run = trainings.queue(trainings.payload(**MANY))
    task = asyncio.create_task(trainings.run(run))
    guest = "one more than the run's own"
    try:
        await said(run, "2 of 2")
        assert guest not in run.log
        joined = nodes.add()
        await said(run, guest)
        nodes.kill(joined)
        await said(run, "engine 2 ended: Its host or its keeper was lost")
        nodes.add()
        await said(run, guest, 2)
        other = await asyncio.to_thread(
            subprocess.Popen,
            [sys.executable, "-c", OTHER, nodes.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            await said(run, "engine 2 ended: A run waits for its room")
            assert other.stdout is not None
            assert await asyncio.wait_for(asyncio.to_thread(other.stdout.readline), 60) == "placed\n"
        finally:
            other.kill()
            other.wait()
        await said(run, guest, 3)
        reported = len(trainings.steps())
        while len(trainings.steps()) < reported + 3:  # it trains on
            assert not task.done(), run.log
            await asyncio.sleep(0.1)
    finally:
        run.cancel = True
        finish = await asyncio.wait_for(task, 120)
    assert finish is not None
    assert finish.state == "cancelled", run.log
    used = [path for number in range(len(nodes.others) + 1) for path in nodes.data(number).glob("cluster-runs/*")]
    assert [path for path in used if path.parents[1] != nodes.data(len(nodes.others) - 1)] == []
