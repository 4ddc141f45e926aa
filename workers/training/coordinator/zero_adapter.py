"""Version 0 of a LoRA policy: an adapter that changes nothing, in PEFT's format. numpy only.

Serving the bare base model instead would put rows with and without an adapter into one batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file


def write_zero_adapter(directory: Path, base: Path, *, rank: int, alpha: float, targets: Sequence[str]) -> None:
    """Make `directory`. Raises ValueError when the base model has no such layers."""
    tensors = {}
    for module, (outputs, inputs) in layers(base, targets):
        tensors[f"base_model.model.{module}.lora_A.weight"] = np.zeros((rank, inputs), np.float32)
        tensors[f"base_model.model.{module}.lora_B.weight"] = np.zeros((outputs, rank), np.float32)
    if not tensors:
        raise ValueError(f"the model has no layer named {', '.join(targets)}; set trainer.target_modules")
    directory.mkdir(parents=True, exist_ok=True)
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "", "r": rank, "bias": "none"}
    config |= {"lora_alpha": alpha, "target_modules": sorted(targets), "lora_dropout": 0.0, "inference_mode": True}
    save_file(tensors, directory / "adapter_model.safetensors", metadata={"format": "pt"})
    (directory / "adapter_config.json").write_text(json.dumps(config, indent=1))


def layers(base: Path, targets: Sequence[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Name and shape of every weight matrix of a target module; reads headers only."""
    for file in sorted(base.glob("*.safetensors")):
        with safe_open(file, framework="numpy") as opened:
            for name in opened.keys():  # noqa: SIM118  not a dict
                module = name.removesuffix(".weight")
                if module != name and module.rpartition(".")[2] in targets:
                    shape = opened.get_slice(name).get_shape()
                    if len(shape) == 2:
                        yield module, (shape[0], shape[1])
