"""Version 0 of an adapter: of exactly the layers that are trained, and it answers like its base model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from tests.workers.training.learner.making import model
from workers.inference.torch_engine.adapters import Adapters
from workers.training.learner.adapter_files import adapter_tensors
from workers.training.learner.directory.config import LearnerConfig
from workers.training.learner.directory.run_dir import RunDir
from workers.training.learner.follow import Follower
from workers.training.learner.heartbeat import Heartbeat
from workers.training.learner.model import load_policy
from workers.training.learner.step import Learner
from workers.training.learner.world import World

pytestmark = pytest.mark.torch


def mixture() -> Any:
    """Its experts' matrices are no linear layers, whatever they are called in its files."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "moe_intermediate_size": 16, "num_hidden_layers": 2}
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    return Qwen3MoeForCausalLM(Qwen3MoeConfig(**sizes, **experts, vocab_size=48))


@pytest.mark.parametrize("make", [model, mixture])
def test_it_has_the_layers_that_are_trained_and_changes_nothing(tmp_path: Path, make: Any) -> None:
    run, settings = RunDir(tmp_path), LearnerConfig()
    made = make().eval()
    made.save_pretrained(run.base)
    run.stop.touch()
    policy = load_policy(run.base, settings, torch.device("cpu"), dtype=torch.float32)
    Follower(run, settings, Learner(policy, settings, World()), Heartbeat(run)).follow()
    with safe_open(run.version(0) / "adapter_model.safetensors", framework="pt") as file:
        assert set(file.keys()) == set(adapter_tensors(policy.adapters))
    ids = torch.tensor([[4, 40, 41]])
    with torch.inference_mode():
        plain = made(input_ids=ids).logits
        adapters = Adapters(made)
        adapters.use([adapters.load("v0", run.version(0))])
        assert torch.equal(made(input_ids=ids).logits, plain)
