"""How many GPUs an engine takes: as many as were asked for, else as few as hold the model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from envhub.protocol.placing.gpus import Gpu

from workers.inference.process import vllm_command
from workers.inference.requests import EngineRequest
from workers.inference.split import need_of, possible_counts

GB = 1024**3
LLAMA = {
    "hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": 8, "num_hidden_layers": 80,
    "intermediate_size": 28672, "vocab_size": 128256,
}  # fmt: skip


def host(*sizes_gb: int) -> list[Gpu]:
    return [
        Gpu(index=index, uuid=f"GPU-{index}", name="H100", memory_mb=size * 1024, free_mb=size * 1024)
        for index, size in enumerate(sizes_gb)
    ]


def request(folder: Path, weights_gb: float, gpus: int = 0) -> EngineRequest:
    """Of a model whose weights are a file without content, which takes no disk."""
    (folder / "config.json").write_text(json.dumps(LLAMA))
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(int(weights_gb * GB))
    return EngineRequest(fingerprint="f", engine="vllm", directory=folder, name="hub/large", gpus=gpus)


@pytest.mark.parametrize(
    ("weights_gb", "sizes_gb", "count"),
    [
        (15, (80, 80), 1),
        (141, (80, 80, 80, 80), 4),  # two halves would leave no room for the cache
        (141, (141, 141), 2),
        (141, (24, 80, 80, 80, 80), 4),
        (141, (80, 80, 80), 2),  # too small whatever is done: the engine says so
        (1.2, (24,), 1),
    ],
)
def test_as_few_as_hold_the_weights(tmp_path: Path, weights_gb: float, sizes_gb: tuple[int, ...], count: int) -> None:
    need = need_of(request(tmp_path, weights_gb), host(*sizes_gb))
    assert need.count == count
    assert need.memory_mb <= max(sizes_gb) * 1024


def test_weights_that_are_there_twice_count_once(tmp_path: Path) -> None:
    asked = request(tmp_path, 60)
    (tmp_path / "model.safetensors").rename(tmp_path / "model-00001-of-00001.safetensors")
    with (tmp_path / "consolidated.safetensors").open("wb") as file:
        file.truncate(60 * GB)
    assert need_of(asked, host(80, 80)).count == 1


def test_weights_of_the_older_format_count(tmp_path: Path) -> None:
    asked = request(tmp_path, 141)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    assert need_of(asked, host(141, 141)).count == 2


def test_what_was_asked_for_is_taken(tmp_path: Path) -> None:
    assert need_of(request(tmp_path, 1, gpus=4), host(80, 80)).words() == "4 GPUs"


def test_a_number_that_does_not_divide_the_heads_is_none() -> None:
    assert possible_counts(8, 7) == [1, 2, 4]
    assert possible_counts(6, 7) == [1, 2, 3, 6]
    assert possible_counts(0, 9) == [1, 2, 4, 8]
    assert possible_counts(4, 0) == [1]


def test_vllm_is_told_how_many_it_has(tmp_path: Path) -> None:
    asked = request(tmp_path, 1)
    command = list(vllm_command(asked, 1, "python", (), gpus=2))
    assert command[command.index("--tensor-parallel-size") + 1] == "2"
    assert "--tensor-parallel-size" not in vllm_command(asked, 1, "python", (), gpus=1)
