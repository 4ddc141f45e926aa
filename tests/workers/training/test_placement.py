"""Where engine and learner go, by tables: on the CPU, in turns on one GPU, or apart; and what cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from envhub.protocol.placing.gpus import Gpu
from envhub.protocol.training.config import TrainingConfig
from envhub.protocol.training.gpu_need import GB, MB, GpuSizes, gpu_need, gpu_sizes
from envhub.protocol.training.shapes import shape_of_name
from envhub.protocol.training.trainer import TrainerTable

from workers.training.memory_plan import Training, predict
from workers.training.placement import CannotPlace, Placement, place

SIZES = GpuSizes(
    learner_fixed=10 * GB,
    learner_step=6 * GB,
    engine_weights=8 * GB,
    engine_cache=4 * GB,
    heads=8,
    layers=36,
    embedding=GB,
)  # in turns: 10 + 12 + 4


def gpus(*free_gb: float, total_gb: int = 40) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(index=index, uuid=f"GPU-{index}", name="G", memory_mb=total_gb * 1024, free_mb=int(free * 1024))
        for index, free in enumerate(free_gb)
    )


def test_without_gpus_everything_is_on_the_cpu() -> None:
    for engine in ("torch", "vllm"):
        assert place((), TrainerTable(), engine, SIZES) == Placement()  # type: ignore[arg-type]
    assert Placement().words() == "engine and learner on the CPU"


def test_one_gpu_is_used_in_turns() -> None:
    found = place(gpus(40), TrainerTable(), "vllm", SIZES)
    assert (found.engine, found.learner, found.in_turns) == (gpus(40), gpus(40), True)
    assert found.engine_share == 0.7  # 40 - 10 of the learner's state - 2 of its context, of 40
    assert found.learner_memory == 38 * GB  # 2 for the sleeping engine's context


def test_in_turns_the_engine_gets_what_others_leave() -> None:
    assert place(gpus(30), TrainerTable(), "vllm", SIZES).engine_share == 0.45


def test_an_unknown_size_gives_each_its_half() -> None:
    assert place(gpus(40), TrainerTable(), "vllm", None).engine_share == 0.45


@pytest.mark.parametrize(
    ("wishes", "number", "engine", "learner"),
    [({"train_gpus": 1, "engine_gpus": 1}, 2, [0], [1]), ({"train_gpus": 2}, 3, [0], [1, 2]),
     ({"engine_gpus": 2}, 3, [0, 1], [2]), ({"train_gpus": 4, "engine_gpus": 4}, 8, [0, 1, 2, 3], [4, 5, 6, 7]),
     ({"train_gpus": 1, "engine_gpus": 1}, 4, [0], [1])],
)  # fmt: skip
def test_the_engine_has_the_first_and_the_learner_the_others(
    wishes: dict[str, Any], number: int, engine: list[int], learner: list[int]
) -> None:
    found = place(gpus(*[40] * number), TrainerTable(**wishes), "vllm", SIZES)
    assert ([gpu.index for gpu in found.engine], [gpu.index for gpu in found.learner]) == (engine, learner)
    assert (found.in_turns, found.engine_share, found.learner_memory) == (False, 0.92, None)


def test_the_torch_engine_stays_on_the_cpu() -> None:
    found = place(gpus(40, 40), TrainerTable(train_gpus=2), "torch", SIZES)
    assert (found.engine, found.learner, found.in_turns, found.engine_share) == ((), gpus(40, 40), False, None)


@pytest.mark.parametrize(
    ("given", "wishes", "engine", "message", "hint"),
    [((), {"train_gpus": 2}, "vllm", "asks for 3 GPUs, and this run was given none", "Leave train_gpus"),
     ((40,), {"train_gpus": 1, "engine_gpus": 1}, "vllm", "asks for 2 GPUs, and this run was given 1", "Lower"),
     ((25,), {}, "vllm", "need 26.0 GB, and GPU 0 has 25.0 GB free", "train_gpus = 1, engine_gpus = 1"),
     ((13, 40), {"train_gpus": 1, "engine_gpus": 1}, "vllm", "The engine needs 14.0 GB of each", "Raise engine_gpus"),
     ((40, 12), {"train_gpus": 1, "engine_gpus": 1}, "vllm", "The learner needs 18.0 GB of each", "Raise train_gpus"),
     ((40,) * 4, {"engine_gpus": 3}, "vllm", "8 key-value heads cannot be split over 3", "Change"),
     ((40,) * 2, {"engine_gpus": 1}, "torch", "torch engine does not use GPUs", "Change")],
)  # fmt: skip
def test_what_cannot_be_says_what_to_change(
    given: tuple[float, ...], wishes: dict[str, Any], engine: Any, message: str, hint: str
) -> None:
    with pytest.raises(CannotPlace, match=message) as caught:
        place(gpus(*given), TrainerTable(**wishes), engine, SIZES)
    assert hint in caught.value.hint


@pytest.mark.parametrize("mode", ["lora", "full"])
@pytest.mark.parametrize("size", ["0.6B", "4B", "14B"])
def test_sizes_agree_with_the_learners_own_plan(mode: str, size: str) -> None:
    shape = shape_of_name(f"Qwen3-{size}")
    assert shape is not None
    trainer = {"mode": mode, "token_budget": 4096}
    config = TrainingConfig.model_validate({"model": "m", "env": [{"id": "a/b"}], "trainer": trainer})
    ours = gpu_sizes(config, shape)
    rank = 0 if mode == "full" else config.trainer.rank
    training = Training(rank, config.trainer.target_modules, width=2, token_budget=4096, head_chunk=2048)
    plan = predict(shape, training, recompute=shape.layers, available=1)
    head_gradient = shape.vocabulary * shape.hidden * 4 if mode == "full" else 0
    assert ours.learner_fixed == plan.weights + plan.optimiser + head_gradient
    assert ours.learner_step == pytest.approx(plan.activations + plan.head - head_gradient, rel=0.1)


@pytest.mark.parametrize("wishes", [{}, {"train_gpus": 1, "engine_gpus": 1}, {"train_gpus": 2, "engine_gpus": 2}])
@pytest.mark.parametrize("mode", ["lora", "full"])
def test_what_the_hub_asks_for_is_what_can_be_placed(mode: str, wishes: dict[str, int]) -> None:
    shape = shape_of_name("Qwen3-4B")
    assert shape is not None
    trainer = {"mode": mode, **wishes}
    config = TrainingConfig.model_validate({"model": "m", "env": [{"id": "a/b"}], "trainer": trainer})
    need, sizes = gpu_need(config, shape, "vllm"), gpu_sizes(config, shape)
    exact = gpus(*[need.memory_mb / 1024] * need.count, total_gb=200)
    assert place(exact, config.trainer, "vllm", sizes).learner
    short = tuple(gpu.model_copy(update={"free_mb": gpu.free_mb - 2}) for gpu in exact)
    assert short[0].free_mb * MB < need.memory_mb * MB
    with pytest.raises(CannotPlace):
        place(short, config.trainer, "vllm", sizes)
