"""A training run on a worker whose `nvidia-smi` lists two GPUs: what its processes would be started with."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest
from envhub.protocol.placing.gpus import GpuNeed
from envhub.protocol.runs import FailureKind, FinishRequest

from tests.fakes.nvidia_smi import install
from workers.runs.errors import RunFailed
from workers.runs.execution import execute
from workers.runs.gpu_pool import GpuPool
from workers.runs.hub import HubClient
from workers.runs.tied import TIED
from workers.settings import WorkerEnvironment
from workers.training.run import run_training

pytestmark = pytest.mark.torch
PYTHON = "/opt/vllm/bin/python"


@dataclass
class Started:
    """Command and environment of what would have been started; the learner's start ends the run."""

    engine: tuple[list[str], dict[str, str]] = field(default_factory=lambda: ([], {}))
    learner: tuple[list[str], dict[str, str]] = field(default_factory=lambda: ([], {}))

    async def start_engine(self, command: Sequence[str], environment: Mapping[str, str], _: Path | None) -> NoReturn:
        self.engine = list(command), dict(environment)
        await asyncio.Event().wait()
        raise AssertionError

    async def start_learner(self, command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
        self.learner = list(command), dict(environment)
        raise RunFailed.because(FailureKind.INFRASTRUCTURE, "seen", "Enough was seen.")


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Started:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    install(tmp_path / "bin", monkeypatch)
    seen = Started()
    monkeypatch.setattr("workers.inference.process.spawn", seen.start_engine)
    monkeypatch.setattr("workers.training.supervise.learner.spawn", seen.start_learner)
    return seen


async def run(trainings: Any, number: int, **trainer: Any) -> FinishRequest:
    """With so many of the worker's GPUs."""
    pool = GpuPool("all")
    await pool.look()
    gpus = pool.take(GpuNeed(count=number))
    assert gpus is not None
    claim = trainings.hub.claim(trainings.queue(trainings.payload(max_steps=2, trainer=trainer)))
    settings = WorkerEnvironment(data=trainings.data, heartbeat_seconds=0.1, hub_patience_s=10, vllm_python=PYTHON)
    (trainings.data / "children").mkdir(exist_ok=True)
    async with HubClient(trainings.hub.url, "hubw_good", patience_s=10) as client:
        finish = await execute(client, claim, run_training, settings, asyncio.Event(), gpus)
    assert finish is not None
    assert finish.failure is not None
    return finish


def written(trainings: Any) -> dict[str, Any]:
    """The learner's configuration."""
    config: dict[str, Any] = json.loads((trainings.data / "training" / "tr" / "config.json").read_text())
    return config


def after(command: list[str], option: str) -> str:
    return command[command.index(option) + 1]


async def test_two_gpus_are_split(trainings: Any, started: Started) -> None:
    finish = await run(trainings, 2, engine="vllm", train_gpus=1, engine_gpus=1)
    assert finish.failure.code == "seen", finish.failure  # type: ignore[union-attr]
    (engine, engine_sees), (learner, learner_sees) = started.engine, started.learner
    assert (engine_sees["CUDA_VISIBLE_DEVICES"], learner_sees["CUDA_VISIBLE_DEVICES"]) == ("0", "1")
    assert engine_sees["CUDA_DEVICE_ORDER"] == learner_sees["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert after(engine, str(TIED)) == PYTHON
    assert (after(engine, "--dtype"), after(engine, "--max-model-len")) == ("bfloat16", "auto")
    assert after(engine, "--gpu-memory-utilization") == "0.914"  # 0.92 of 81038 free MB of 81559
    assert not {"--enable-sleep-mode", "--tensor-parallel-size"} & set(engine)
    assert learner[1:3] == ["-m", "workers.training.learner"]
    assert (written(trainings)["device"], written(trainings)["takes_turns"]) == ("cuda", False)


async def test_one_gpu_is_shared_in_turns(trainings: Any, started: Started) -> None:
    await run(trainings, 1, engine="vllm")
    (engine, engine_sees), (_, learner_sees) = started.engine, started.learner
    assert engine_sees["CUDA_VISIBLE_DEVICES"] == learner_sees["CUDA_VISIBLE_DEVICES"] == "1"  # the tighter one
    assert "--enable-sleep-mode" in engine
    assert after(engine, "--gpu-memory-utilization") == "0.92"  # a tiny learner leaves nearly all of it
    config = written(trainings)
    assert config["takes_turns"]
    assert config["memory_bytes"] == (80_000 - 2048) * 1024**2
    assert "take turns on GPU 1 (NVIDIA H100 80GB HBM3)" in trainings.hub.runs["r0"].log


@pytest.mark.matrix
async def test_a_learner_of_two_gpus_is_two_processes(trainings: Any, started: Started) -> None:
    await run(trainings, 2, engine="torch", train_gpus=2)
    (engine, engine_sees), (learner, learner_sees) = started.engine, started.learner
    assert (engine_sees["CUDA_VISIBLE_DEVICES"], learner_sees["CUDA_VISIBLE_DEVICES"]) == ("", "0,1")
    assert after(engine, "-m") == "workers.inference.torch_engine"
    assert learner[1:4] == ["-m", "workers.training.learner.elastic", "2"]


@pytest.mark.matrix
async def test_without_gpus_no_process_sees_one(trainings: Any, started: Started) -> None:
    await run(trainings, 0)
    (_, engine_sees), (_, learner_sees) = started.engine, started.learner
    assert engine_sees["CUDA_VISIBLE_DEVICES"] == learner_sees["CUDA_VISIBLE_DEVICES"] == ""
    assert (written(trainings)["device"], written(trainings)["takes_turns"]) == ("cpu", False)


async def test_wishes_that_the_gpus_do_not_meet_fail_the_run_with_what_to_do(trainings: Any, started: Started) -> None:
    finish = await run(trainings, 1, engine="vllm", train_gpus=1, engine_gpus=1)
    assert finish.failure is not None
    assert finish.failure.code == "cannot_place"
    assert "asks for 2 GPUs, and this run was given 1" in finish.failure.message
    assert started.engine == ([], {})
