"""Small models, samples and runs for the learner's tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from workers.training.journal.batch import StepBatch
from workers.training.journal.writer import JournalWriter
from workers.training.learner.directory.config import LearnerConfig
from workers.training.samples.rollout import RolloutKey
from workers.training.samples.sample import Sample

VOCABULARY = 48


def model(*, seed: int = 0, dtype: torch.dtype = torch.float32, tied: bool = False, **changes: Any) -> Any:
    """A Qwen3 of a few thousand weights."""
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "vocab_size": VOCABULARY,
    }
    config = Qwen3Config(
        **(sizes | changes),
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=tied,
    )
    return Qwen3ForCausalLM(config).to(dtype)


def sample(
    ids: Sequence[int],
    train: Sequence[bool],
    *,
    advantage: float = 1.0,
    logprobs: Sequence[float] | float = -3.0,
    group: int = 0,
    index: int = 0,
    inv_temperature: float = 1.0,
    weight: float = 1.0,
) -> Sample:
    """A sample; logprobs are those of trained tokens in order, or one for all of them."""
    flags = np.array(train, dtype=np.bool_)
    full = np.zeros(len(ids), np.float32)
    full[flags] = logprobs
    return Sample(
        ids=np.array(ids, dtype=np.int32),
        train=flags,
        logprobs=full,
        advantages=np.where(flags, np.float32(advantage), np.float32(0)),
        versions=np.where(flags, 0, -1).astype(np.int32),
        turns=np.where(flags, 0, -1).astype(np.int32),
        rollout=RolloutKey(group, index),
        inv_temperature=inv_temperature,
        weight=weight,
    )


def samples(
    *, groups: int = 3, each: int = 3, seed: int = 0, prompt: int = 20, longest: int = 9, environment: bool = True
) -> tuple[Sample, ...]:
    """Groups with a shared prompt, completions of unequal lengths, some with environment tokens in their middle."""
    rng, made = random.Random(seed), []
    for group in range(groups):
        start = [rng.randrange(VOCABULARY) for _ in range(prompt + group)]
        for index in range(each):
            count = rng.randint(1, longest)
            rest = [rng.randrange(VOCABULARY) for _ in range(count)]
            train = [True] * count
            if environment and count > 4:
                train[2:4] = [False, False]
            made.append(
                sample(
                    start + rest,
                    [False] * len(start) + train,
                    advantage=rng.gauss(0, 1),
                    logprobs=[rng.gauss(-3.5, 0.5) for _ in range(sum(train))],
                    group=group,
                    index=index,
                    inv_temperature=1.0 if group % 2 else 1.25,
                )
            )
    return tuple(made)


def batch(step: int, of: Sequence[Sample]) -> StepBatch:
    """A batch whose denominator is its number of trained tokens."""
    return StepBatch(step=step, samples=tuple(of), denominator=float(sum(each.trained for each in of)))


def make_run(folder: Path, config: LearnerConfig, *, steps: int, tied: bool = False) -> Path:
    """A run's directory with a model, a configuration and `steps` journaled batches."""
    made = model(tied=tied)
    made.save_pretrained(folder / "base")
    (folder / "config.json").write_text(config.model_dump_json())
    journal = folder / "journal"
    journal.mkdir()
    with JournalWriter(journal) as writer:
        for step in range(1, steps + 1):
            writer.append(batch(step, samples(seed=step)))
    return folder
