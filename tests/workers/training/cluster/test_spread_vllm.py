"""Training runs whose engine is the real vLLM on two hosts: both get each version's weights, and they end as one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")
from tests.contract.engines import VLLM_ARGUMENTS
from tests.workers.training.cluster.nodes import CONFIG, Nodes, descendants, started
from tests.workers.training.cluster.test_extra_engines import said

pytestmark = [pytest.mark.matrix, pytest.mark.vllm, pytest.mark.sandbox, pytest.mark.torch]
TRAINER = {"rank": 8, "alpha": 16, "token_budget": 4096, "hosts": 2, "engine_hosts": 2, "max_off_policy": 0}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    variables = {
        "WORKER_VLLM_PYTHON": os.environ["VLLM_PYTHON"],
        "WORKER_VLLM_ARGUMENTS": json.dumps(VLLM_ARGUMENTS),
        "WORKER_RAY_ROLLOUTS": "false",
    }
    with started(tmp_path_factory.mktemp("cluster"), 2, variables) as made:
        yield made


@pytest.fixture
def spread(trainings: Any) -> Any:
    """Runs with engines over two hosts."""
    trainings.settings = {"vllm_python": os.environ["VLLM_PYTHON"], "vllm_arguments": VLLM_ARGUMENTS}
    return trainings


def parts() -> list[int]:
    """The processes of vLLM below this one that compute for another host's part."""
    return [pid for pid in descendants(os.getpid()) if b"--headless" in arguments(pid)]


def arguments(pid: int) -> list[bytes]:
    """A process's command line; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def assert_same_weights(trainings: Any, steps: int) -> None:
    """Learner and engine agree on every token that the engine sampled with the newest weights."""
    found = trainings.steps()
    assert [step.step for step in found] == list(range(1, steps + 1))
    for step in found:
        assert step.kl is not None
        assert abs(step.kl) < 1e-4
        assert step.ratio_max == pytest.approx(1.0, abs=1e-3)


async def test_full_weights_reach_the_layers_of_both_hosts(spread: Any) -> None:
    trainer = {**TRAINER, "mode": "full"}
    finish = await spread.finish(**{**CONFIG, "max_steps": 2, "learning_rate": 2e-3, "trainer": trainer})
    assert finish.state == "succeeded", spread.hub.runs["r0"].log
    assert_same_weights(spread, 2)
    assert parts() == []


async def test_a_killed_part_restarts_the_whole_engine_with_the_newest_adapter(spread: Any, nodes: Nodes) -> None:
    run = spread.queue(spread.payload(**{**CONFIG, "max_steps": 4, "learning_rate": 2e-3, "trainer": TRAINER}))
    task = asyncio.create_task(spread.run(run))
    await said(run, "1 of 1")
    while len(spread.steps()) < 2:
        assert not task.done(), run.log
        await asyncio.sleep(0.05)
    (killed,) = parts()
    os.kill(killed, signal.SIGKILL)
    finish = await task
    assert finish is not None
    assert finish.state == "succeeded", run.log
    assert "engine 0 ended: part 1 on" in run.log
    assert run.log.count("1 of 1") == 2
    assert_same_weights(spread, 4)
    assert parts() == []
    assert [path for number in range(2) for path in nodes.data(number).glob("cluster-runs/*")] == []
