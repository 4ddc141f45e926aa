"""What the configuration says of the model's numbers and memory is what is loaded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, GptOssConfig

from tests.workers.training.learner.making import batch, make_run, samples
from workers.training.learner.directory.config import LearnerConfig
from workers.training.learner.directory.run_dir import RunDir
from workers.training.learner.errors import BadModel
from workers.training.learner.model import Policy, compute_dtype, make_policy, pick_device
from workers.training.learner.recompute import make_pieces
from workers.training.learner.sharding import loading_dtype
from workers.training.learner.start import loaded
from workers.training.learner.step import Learner
from workers.training.learner.world import World

pytestmark = pytest.mark.torch
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def load(folder: Path, config: LearnerConfig) -> Policy:
    run = RunDir(make_run(folder, config, steps=0))
    return loaded(run, config, World(), CPU, make_pieces(run.base, config, CPU).recompute)


@pytest.mark.parametrize("mode", ["lora", "full"])
def test_a_model_that_is_asked_for_in_bfloat16_is_trained_in_it(tmp_path: Path, mode: Any) -> None:
    config = LearnerConfig(mode=mode, dtype="bfloat16")
    policy = load(tmp_path, config)
    assert policy.head.dtype == torch.bfloat16
    learner = Learner(policy, config, World())
    assert learner.train(batch(1, samples()), budget=100).grad_norm
    assert {master.dtype for master in learner.masters.named.values()} == {torch.float32}


def test_a_model_whose_attention_is_another_one_is_refused() -> None:
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}
    experts = {"head_dim": 16, "intermediate_size": 32, "num_local_experts": 2, "num_experts_per_tok": 1}
    with_sinks = AutoModelForCausalLM.from_config(GptOssConfig(vocab_size=64, **shape, **experts))
    with pytest.raises(BadModel, match="sinks"):
        make_policy(with_sinks, LearnerConfig(mode="full"))


def test_a_model_whose_layers_are_elsewhere_is_refused() -> None:
    other = AutoModelForCausalLM.from_config(GPT2Config(vocab_size=64, n_embd=32, n_layer=1, n_head=2))
    with pytest.raises(BadModel, match="gpt2 is not supported"):
        make_policy(other, LearnerConfig(mode="full"))


def test_the_device_decides_when_nothing_is_asked_for() -> None:
    dtypes = [(compute_dtype(LearnerConfig(dtype=asked), CPU), compute_dtype(LearnerConfig(dtype=asked), CUDA))
              for asked in (None, "float32", "bfloat16")]  # fmt: skip
    narrow, wide = torch.bfloat16, torch.float32
    assert dtypes == [(wide, narrow), (wide, wide), (narrow, narrow)]


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine's torch can use its GPU")
def test_a_torch_that_cannot_use_the_gpu_names_itself() -> None:
    with pytest.raises(BadModel, match=re.escape(torch.__version__)) as caught:
        pick_device("cuda")
    assert "CUDA build" in caught.value.hint


def test_split_weights_that_are_trained_are_loaded_as_their_own_masters() -> None:
    config = LearnerConfig(mode="full", dtype="bfloat16")
    assert loading_dtype(config, World(size=2), CUDA) == torch.float32
    assert loading_dtype(config, World(), CUDA) == torch.bfloat16


@pytest.mark.parametrize("recompute", [True, False])
def test_every_layer_runs_again_or_none(tmp_path: Path, recompute: bool) -> None:
    policy = load(tmp_path, LearnerConfig(recompute=recompute))
    assert {layer.gradient_checkpointing for layer in policy.body.layers} == {recompute}


def test_the_memory_plan_decides_when_nothing_is_asked_for(tmp_path: Path) -> None:
    config = LearnerConfig(memory_bytes=1)
    run = RunDir(make_run(tmp_path, config, steps=0))
    assert make_pieces(run.base, config, CPU).recompute == 2
    assert make_pieces(run.base, config.model_copy(update={"memory_bytes": None}), CPU).recompute == 0


def test_micro_batches_widen_on_a_gpu_with_room(tmp_path: Path) -> None:
    config = LearnerConfig(token_budget=1000, widens=True, memory_bytes=10**10)
    base = RunDir(make_run(tmp_path, config, steps=0)).base
    asked = {
        "room": (config, CUDA),
        "none": (config.model_copy(update={"memory_bytes": 1}), CUDA),
        "fixed": (config.model_copy(update={"widens": False}), CUDA),
        "on a CPU": (config, CPU),
    }
    assert {name: make_pieces(base, *each).tokens for name, each in asked.items()} == {
        "room": 65_500, "none": 1000, "fixed": 1000, "on a CPU": 1000,
    }  # fmt: skip
