"""Predictions against figures that are known: parameters, adapter sizes, KV bytes, 16 bytes a trained weight."""

from __future__ import annotations

from dataclasses import replace

import pytest
from envhub.protocol.training.estimate import estimate, model_needs
from envhub.protocol.training.shapes import shape_of_config, shape_of_name
from envhub.protocol.training.toml import read_training_toml
from envhub.protocol.training.trainer import LORA_TARGETS

TOML = 'model = "Qwen/Qwen3-4B"\nmax_steps = 10\nbatch_size = 64\n[sampling]\nmax_tokens = 100\n[[env]]\nid = "a/b"\n'


@pytest.mark.parametrize(
    ("name", "billions", "kv_kib"),
    [("Qwen/Qwen3-0.6B", 0.596, 112), ("Qwen/Qwen3-1.7B", 1.72, 112), ("x/Qwen3-4B-Instruct-2507", 4.02, 144),
     ("Qwen/Qwen3-8B", 8.19, 144), ("Qwen/Qwen3-30B-A3B", 30.5, 96), ("someone/other-9b", 9.0, 144)],
)  # fmt: skip
def test_a_shape_is_guessed_from_the_size_in_a_name(name: str, billions: float, kv_kib: int) -> None:
    shape = shape_of_name(name)
    assert shape is not None
    assert shape.parameters / 1e9 == pytest.approx(billions, rel=0.01)
    assert shape.kv_values * 2 == kv_kib * 1024


def test_without_a_size_there_is_no_shape_and_no_memory() -> None:
    assert shape_of_name("alice/mine") is None
    found = estimate(read_training_toml(TOML).config, None)
    assert (found.learner, found.sampled_tokens) == ({}, 64 * 100 * 10)
    assert any("unknown" in text for text in found.assumptions)


def test_an_adapter_of_rank_16_of_a_4b_model_is_66_megabytes() -> None:
    shape = shape_of_name("4B")
    assert shape is not None
    assert shape.lora_parameters(16, LORA_TARGETS) * 2 == pytest.approx(66e6, rel=0.01)


def test_full_fine_tuning_of_a_4b_model_needs_64_gigabytes_for_its_weights() -> None:
    config = read_training_toml(TOML + '[trainer]\nmode = "full"\n').config
    found = estimate(config, shape_of_name(config.model))
    assert found.learner["weights, gradients, optimiser"] == pytest.approx(64e9, rel=0.01)


def test_limits_of_the_file_replace_what_is_assumed() -> None:
    text = TOML + "max_turns = 3\nmax_input_tokens = 50\nmax_total_tokens = 300\n"
    found = estimate(read_training_toml(text).config, None)
    assert (found.longest_sample, found.sampled_tokens_per_step) == (300, 64 * 300)
    assert not any("turn" in text or "prompts" in text for text in found.assumptions)


@pytest.mark.parametrize(
    ("more", "turns"),
    [("[env.harness]\nmax_turns = 8\n", 8), ("args = { max_turns = 5 }\n", 5), ("args = { max_turns = -1 }\n", 1),
     ("max_turns = 3\n[env.harness]\nmax_turns = 8\n", 3)],
)  # fmt: skip
def test_turns_that_the_package_is_told_count_too(more: str, turns: int) -> None:
    found = estimate(read_training_toml(TOML + more).config, None)
    assert found.sampled_tokens_per_step == 64 * 100 * turns
    assert any("one turn" in text for text in found.assumptions) == (turns == 1)


def test_only_kept_checkpoints_take_disk() -> None:
    shape = shape_of_name("4B")
    one = estimate(read_training_toml(TOML + "[checkpoints]\ninterval = 0\n").config, shape)
    kept = estimate(read_training_toml(TOML + "[checkpoints]\ninterval = 1\nkeep_cloud = 3\n").config, shape)
    assert kept.disk["checkpoints"] == 3 * one.disk["checkpoints"]


def test_the_newest_checkpoint_and_adapter_are_always_kept() -> None:
    shape = shape_of_name("4B")
    none = estimate(
        read_training_toml(TOML + "[checkpoints]\nkeep_cloud = 0\n[adapters]\nkeep_last = 0\n").config, shape
    )
    one = estimate(read_training_toml(TOML + "[checkpoints]\ninterval = 0\n").config, shape)
    assert none.disk == one.disk
    assert none.disk["checkpoints"] > 0


def test_a_config_json_that_is_no_decoder_has_no_shape() -> None:
    assert shape_of_config({"model_type": "vit"}) is None
    assert shape_of_config({"hidden_size": "x"}) is None


def test_the_needs_of_a_model_are_told_in_a_line() -> None:
    large, tiny = shape_of_name("4B"), shape_of_name("hub/tiny")
    assert large is not None
    assert tiny is not None
    assert model_needs(large) == (
        "LoRA from 8.57 GB, every weight from 64.4 GB, serving from 8.04 GB of GPU memory for weights"
    )
    assert model_needs(tiny) == "a CPU is enough"
    assert "every weight from 1123 GB" in model_needs(replace(large, given_parameters=70_200_000_000))
