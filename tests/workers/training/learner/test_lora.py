"""Adapters: nothing at first, PEFT's format on disk, loaded again, refused when they do not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.workers.training.learner.making import VOCABULARY, model
from workers.inference.torch_engine.adapters import read_adapter
from workers.training.learner.adapter_files import load_adapter, save_adapter
from workers.training.learner.directory.config import LearnerConfig, LoraConfig
from workers.training.learner.errors import BadModel
from workers.training.learner.model import Policy, make_policy

pytestmark = pytest.mark.torch
IDS = torch.arange(12)[None] % VOCABULARY
LORA = LoraConfig(rank=4, alpha=8, target_modules=("q_proj", "down_proj"))


def policy(*, seed: int = 0, lora: LoraConfig = LORA) -> Policy:
    return make_policy(model(), LearnerConfig(mode="lora", lora=lora, seed=seed))


def stir(made: Policy) -> None:
    """Give the adapters some effect."""
    torch.manual_seed(5)
    for adapter in made.adapters.values():
        torch.nn.init.normal_(adapter.up)


def logits(made: Policy) -> torch.Tensor:
    made.model.set_attn_implementation("sdpa")
    result: torch.Tensor = made.model(IDS).logits.detach()
    return result


def test_a_fresh_adapter_changes_nothing() -> None:
    assert torch.equal(logits(policy()), logits(make_policy(model(), LearnerConfig(mode="full"))))


def test_only_the_named_layers_factors_are_trained() -> None:
    names = {name for name, _ in policy().trained()}
    layers = [f"model.layers.{n}.{path}" for n in (0, 1) for path in ("self_attn.q_proj", "mlp.down_proj")]
    assert names == {f"{layer}.{factor}" for layer in layers for factor in ("down", "up")}


def test_the_head_takes_no_adapter_whatever_its_name() -> None:
    with pytest.raises(BadModel, match="lm_head"):
        policy(lora=LoraConfig(rank=4, alpha=8, target_modules=("q_proj", "lm_head")))


def test_the_seed_decides_the_first_factors() -> None:
    first, same, other = (policy(seed=seed).trained()[0][1] for seed in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_files_have_pefts_names_and_shapes(tmp_path: Path) -> None:
    save_adapter(tmp_path, policy().adapters, LORA, base="base")
    tensors = load_file(tmp_path / "adapter_model.safetensors")
    assert tensors["base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"].shape == (4, 32)
    assert tensors["base_model.model.model.layers.1.mlp.down_proj.lora_B.weight"].shape == (32, 4)
    assert len(tensors) == 8
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (config["peft_type"], config["r"], config["lora_alpha"]) == ("LORA", 4, 8)
    assert config["target_modules"] == ["down_proj", "q_proj"]


def test_a_saved_adapter_loads_into_another_model(tmp_path: Path) -> None:
    before = policy()
    stir(before)
    save_adapter(tmp_path, before.adapters, LORA, base="base")
    after = policy(seed=9)
    load_adapter(tmp_path, after.adapters, LORA)
    assert torch.equal(logits(before), logits(after))


def test_the_engine_computes_the_same_change(tmp_path: Path) -> None:
    made = policy()
    stir(made)
    save_adapter(tmp_path, made.adapters, LORA, base="base")
    for path, (down, up) in read_adapter("any", tmp_path).layers.items():
        ours = made.adapters[path]
        torch.testing.assert_close(up @ down, ours.scale * ours.up @ ours.down)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (LoraConfig(rank=2, alpha=8, target_modules=("q_proj", "down_proj")), "rank 4"),
        (LoraConfig(rank=4, alpha=8, target_modules=("q_proj",)), "other layers"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(tmp_path: Path, other: LoraConfig, why: str) -> None:
    save_adapter(tmp_path, policy().adapters, LORA, base="base")
    with pytest.raises(BadModel, match=why):
        load_adapter(tmp_path, policy(lora=other).adapters, other)


def test_layers_that_are_not_there_are_named() -> None:
    with pytest.raises(BadModel, match="gate_proj"):
        policy(lora=LoraConfig(target_modules=("query",)))
