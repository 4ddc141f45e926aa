"""A worker process with two (fake) GPUs: it says so, and its runs never share one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from envhub.protocol.placing.gpus import GpuNeed
from envhub.protocol.runs import RunKind

from tests.fakes.hub import FakeHub, FakeRun
from tests.fakes.nvidia_smi import install
from tests.fakes.policy_endpoint import PolicyEndpoint
from tests.workers.tasks.test_worker_process import hanging, until, worker


async def test_runs_get_gpus_of_their_own_and_the_third_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    install(tmp_path / "bin", monkeypatch)
    one = GpuNeed(count=1, memory_mb=50_000)
    async with FakeHub(lease_seconds=30) as hub, PolicyEndpoint() as stub:
        waiting = hanging(hub, stub, tmp_path)
        del hub.runs[waiting.id]
        runs = [
            hub.add(FakeRun(f"r{number}", kind=RunKind.EVAL, queue="gpu", gpus=one, payload=waiting.payload))
            for number in range(3)
        ]
        slots = json.dumps({"gpu": 3})
        async with worker(hub, tmp_path / "data", WORKER_SLOTS=slots, WORKER_SERVE_RUNS="0"):
            await until(lambda: all(run.state == "running" for run in runs[:2]), 60)
            beats = len(hub.beats)
            await until(lambda: len(hub.beats) > beats + 3, 60)
            assert (hub.beats[-1].room["gpu"], hub.beats[-1].free_gpus, len(hub.beats[-1].busy_gpus)) == (1, (), 2)
            assert [run.state for run in runs] == ["running", "running", "queued"]
            assert sorted(run.given for run in runs) == [(), (80_000,), (81_038,)]
            runs[0].cancel = True
            await until(lambda: runs[2].state == "running", 60)
            assert runs[2].given == runs[0].given
            (facts,) = {join.facts for join in hub.joins}
            assert [(gpu.index, gpu.memory_mb) for gpu in facts.gpus] == [(0, 81_559), (1, 81_559)]


@pytest.mark.matrix
async def test_a_model_on_several_gpus_is_claimed_with_those_that_are_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    install(tmp_path / "bin", monkeypatch)
    async with FakeHub(lease_seconds=30) as hub:
        two = GpuNeed(count=2)
        served = hub.add(FakeRun("r0", kind=RunKind.SERVE, queue="serve", gpus=two, payload={}))
        async with worker(hub, tmp_path / "data", WORKER_SLOTS='{"gpu": 1}', WORKER_SERVE_RUNS="1"):
            await until(lambda: served.state == "failed", 60)  # it has no payload
        assert served.given == (81_038, 80_000)
