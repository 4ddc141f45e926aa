"""Models with random weights and rollouts with random tokens, for bench_gpu. Needs nothing from a network."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from envhub.protocol.training.shapes import ModelShape, shape_of_config
from transformers import Qwen3Config, Qwen3ForCausalLM

from workers.training.samples.rollout import RolloutKey
from workers.training.samples.sample import Sample


def sizes(hidden: int, intermediate: int, layers: int, heads: int) -> dict[str, int]:
    """Of a Qwen3; what all of them have in common is added."""
    return {
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151_936,
    }


QWEN3 = {"0.6B": sizes(1024, 3072, 28, 16), "1.7B": sizes(2048, 6144, 28, 16), "4B": sizes(2560, 9728, 36, 32)}
TINY = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 512}
SMALL = {"small": sizes(64, 128, 2, 4) | TINY}


@dataclass(frozen=True)
class Mix:
    """Rollouts of a step: lengths are uniform between two bounds, the prompt among them; `budget`: a micro-batch's."""

    name: str
    shortest: int
    longest: int
    prompt: int
    tokens: int
    budget: int


# A token's sequence has 4.1k and 16.4k tokens in the mean: the study's S = 4k and S = 16k.
MIXES = (Mix("4k", 1000, 6000, 250, 65_536, 8192), Mix("16k", 4000, 24_000, 1000, 98_304, 24_576))
SMALL_MIXES = (Mix("4k", 10, 60, 5, 600, 120), Mix("16k", 40, 240, 10, 1200, 240))


def samples(mix: Mix, *, vocabulary: int, seed: int = 0) -> list[Sample]:
    """About `mix.tokens` tokens, in pairs that share their prompt."""
    rng, made, total = random.Random(seed), list[Sample](), 0
    drawn = np.random.default_rng(seed)
    while total < mix.tokens:
        group, index = divmod(len(made), 2)
        if not index:
            prompt = drawn.integers(vocabulary, size=mix.prompt, dtype=np.int32)
        length = max(mix.prompt + 1, rng.randint(mix.shortest, mix.longest))
        ids = np.concatenate([prompt, drawn.integers(vocabulary, size=length - mix.prompt, dtype=np.int32)])
        made.append(one(ids, mix.prompt, rng.gauss(0, 1), -math.log(vocabulary), RolloutKey(group, index)))
        total += length
    return made


def one(ids: Any, prompt: int, advantage: float, logprob: float, rollout: RolloutKey) -> Sample:
    """A rollout of one turn."""
    train = np.arange(len(ids)) >= prompt
    return Sample(
        ids=ids,
        train=train,
        logprobs=np.where(train, np.float32(logprob), np.float32(0)),
        advantages=np.where(train, np.float32(advantage), np.float32(0)),
        versions=np.where(train, 0, -1).astype(np.int32),
        turns=np.where(train, 0, -1).astype(np.int32),
        rollout=rollout,
    )


def config_of(sizes: Mapping[str, int]) -> Qwen3Config:
    """Qwen3's architecture in these sizes."""
    return Qwen3Config(**sizes, max_position_embeddings=40_960, tie_word_embeddings=True)


def shape_of(sizes: Mapping[str, int]) -> ModelShape:
    """As the memory plan knows it."""
    shape = shape_of_config(config_of(sizes).to_dict())
    assert shape is not None
    return shape


def make_model(sizes: Mapping[str, int], device: torch.device, dtype: torch.dtype) -> Any:
    """Made where it is used: random numbers of a host would take minutes."""
    with device:
        return Qwen3ForCausalLM._from_config(config_of(sizes), dtype=dtype)
