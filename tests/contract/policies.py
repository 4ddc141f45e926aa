"""A tiny model, random LoRA adapters for it, and what each of them says by transformers alone: the engines' oracle."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

RANK, ALPHA = 4, 8.0
TARGETS = ("q_proj", "v_proj", "o_proj", "up_proj")


@dataclass(frozen=True)
class Policy:
    """A model directory and the model itself."""

    directory: Path
    model: Any

    def logprobs(self, prompt: list[int], completion: list[int], temperature: float = 1.0) -> list[float]:
        """Of each completion token."""
        rows = self._rows(prompt, completion, temperature)
        found: list[float] = rows.gather(-1, torch.tensor(completion)[:, None])[:, 0].tolist()
        return found

    def highest(self, prompt: list[int], completion: list[int]) -> list[float]:
        """Of the likeliest token at each place of the completion."""
        found: list[float] = self._rows(prompt, completion, 1.0).max(-1).values.tolist()
        return found

    def _rows(self, prompt: list[int], completion: list[int], temperature: float) -> torch.Tensor:
        with torch.inference_mode():
            logits = self.model(input_ids=torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1].float()
        return (logits / temperature).log_softmax(-1)


def make_policy(directory: Path, seed: int) -> Policy:
    """A random model, saved."""
    from workers.training.tiny.architecture import make_model, make_tokenizer  # noqa: PLC0415

    model = make_model(seed).eval()
    model.save_pretrained(directory)
    make_tokenizer().save_pretrained(directory)
    return Policy(directory, model)


def make_adapter(directory: Path, base: Policy, seed: int) -> Policy:
    """A random adapter in PEFT's format; the policy's model has it merged."""
    generator = torch.Generator().manual_seed(seed)
    merged, tensors = copy.deepcopy(base.model), {}
    for name, module in merged.named_modules():
        if not name.endswith(TARGETS):
            continue
        down = torch.randn(RANK, module.in_features, generator=generator) * 0.2
        up = torch.randn(module.out_features, RANK, generator=generator) * 0.2
        tensors[f"base_model.model.{name}.lora_A.weight"] = down
        tensors[f"base_model.model.{name}.lora_B.weight"] = up
        module.weight.data += ALPHA / RANK * up @ down
    directory.mkdir()
    save_file(tensors, directory / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": ALPHA, "bias": "none"}
    config |= {"target_modules": list(TARGETS), "base_model_name_or_path": str(base.directory)}
    (directory / "adapter_config.json").write_text(json.dumps(config))
    return Policy(directory, merged)
