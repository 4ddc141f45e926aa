"""The command of a host's part of an engine on several hosts; tests/workers/training/cluster runs a real one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from envhub.protocol.placing.gpus import Gpu

from workers.inference.policy_engine import EnginePart, PolicyEngineStart

START = PolicyEngineStart(
    kind="vllm", directory=Path("/data/base"), name="policy", vllm_python="python", vllm_arguments=("--enforce-eager",)
)
GPUS = tuple(Gpu(index=index, uuid="", name="", memory_mb=0, free_mb=0) for index in range(4))


def command(number: int, gpus: tuple[Gpu, ...] = ()) -> str:
    part = EnginePart(number=number, of=2, address="10.0.0.1", port=29_999, root=Path("/data"))
    return " ".join(replace(START, part=part, gpus=gpus).command(8000, host=f"10.0.0.{number + 1}"))


def test_every_part_knows_the_others_and_layers_are_split_over_them() -> None:
    for number in range(2):
        said = command(number)
        assert f"--pipeline-parallel-size 2 --nnodes 2 --node-rank {number} " in said
        assert "--master-addr 10.0.0.1 --master-port 29999 --distributed-executor-backend mp" in said
        assert "--tensor-parallel-size" not in said


def test_each_layer_is_split_over_the_gpus_of_its_host() -> None:
    assert "--tensor-parallel-size 4 --pipeline-parallel-size 2" in command(1, GPUS)


def test_only_the_first_part_answers_requests() -> None:
    assert "--headless" not in command(0)
    assert "--headless" in command(1)


def test_an_engine_of_one_host_has_no_parts() -> None:
    assert "--nnodes" not in START.command(8000)
