"""Directories that must not become a policy's weights: each wrong in one way, and what an engine says of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

Tensors = dict[str, torch.Tensor]
HEAD, NORM = "lm_head.weight", "model.norm.weight"


def of_another_shape(tensors: Tensors) -> None:
    """As a larger vocabulary has."""
    tensors[HEAD] = torch.cat([tensors[HEAD], tensors[HEAD][:1]])


def without_one(tensors: Tensors) -> None:
    """A tensor is missing."""
    del tensors[NORM]


def with_a_stranger(tensors: Tensors) -> None:
    """A tensor that the model has no place for."""
    tensors["model.layers.77.input_layernorm.weight"] = tensors[NORM].clone()


def of_whole_numbers(tensors: Tensors) -> None:
    """A quantised tensor without its scales."""
    tensors[HEAD] = tensors[HEAD].to(torch.int8)


SPOILED: dict[str, Callable[[Tensors], None]] = {
    HEAD: of_another_shape,
    NORM: without_one,
    "model.layers.77.input_layernorm.weight": with_a_stranger,
    "lm_head": of_whole_numbers,
}


def spoiled_directories(base: Path, folder: Path) -> dict[Path, str]:
    """Directories, and what the refusal of each one names."""
    found: dict[Path, str] = {}
    for expected, spoil in SPOILED.items():
        directory = folder / spoil.__name__
        shutil.copytree(base, directory)
        tensors = load_file(directory / "model.safetensors")
        spoil(tensors)
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
        found[directory] = expected
    cut = folder / "cut_off"
    shutil.copytree(base, cut)
    whole = (cut / "model.safetensors").read_bytes()
    (cut / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    (folder / "empty").mkdir()
    return {**found, cut: "cannot be read", folder / "empty": "no \\*.safetensors file"}
