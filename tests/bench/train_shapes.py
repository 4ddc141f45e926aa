"""The study's model and rollouts, shared by every side of `bench_train`. Needs only torch and transformers."""

from __future__ import annotations

import math
import random
import resource
from dataclasses import dataclass
from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

VOCABULARY = 32768
CLIP = 0.2
SMALL = {"vocab_size": 64, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}  # for parity tests
LONGEST = 1024  # TRL's max_completion_length


@dataclass(frozen=True)
class Shape:
    """Four prompts, eight completions each; lengths of completions are log-normal."""

    shortest: int
    longest: int
    log_mean: float
    log_deviation: float
    most: int


SHAPES = {"short": Shape(100, 300, 5.3, 0.8, 1024), "shared": Shape(900, 1100, 5.0, 0.7, 600)}


@dataclass(frozen=True)
class Row:
    """One rollout of random tokens."""

    group: int
    prompt: list[int]
    completion: list[int]
    advantage: float
    logprobs: list[float]


def rows(name: str, *, prompts: int = 4, group: int = 8, seed: int = 1, vocabulary: int = VOCABULARY) -> list[Row]:
    """The rollouts of a shape."""
    shape, rng, made = SHAPES[name], random.Random(seed), []
    for number in range(prompts):
        prompt = [rng.randrange(5, vocabulary) for _ in range(rng.randint(shape.shortest, shape.longest))]
        rewards = [rng.random() for _ in range(group)]
        for reward in rewards:
            count = max(8, min(shape.most, int(math.exp(rng.gauss(shape.log_mean, shape.log_deviation)))))
            completion = [rng.randrange(5, vocabulary) for _ in range(count)]
            logprobs = [-math.log(vocabulary) + 0.3 * rng.gauss(0, 1) for _ in completion]
            made.append(Row(number, prompt, completion, reward - sum(rewards) / group, logprobs))
    return made


def small_rows() -> list[Row]:
    """Short rollouts over a small vocabulary."""
    return [
        Row(row.group, row.prompt[:30], row.completion[: 8 + at], row.advantage, row.logprobs[: 8 + at])
        for at, row in enumerate(rows("short", vocabulary=SMALL["vocab_size"]))
    ]


def model(*, dtype: torch.dtype = torch.float32, attention: str = "sdpa", **changes: int) -> Any:
    """Qwen3 of hidden size 256, 6 layers, 32k words: the head weighs as much as in a 0.6B model."""
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 6}
    config = Qwen3Config(
        **(sizes | changes),
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    made = Qwen3ForCausalLM(config).to(dtype)
    made.set_attn_implementation(attention)
    return made


def peak_bytes() -> int:
    """The process's highest resident memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
