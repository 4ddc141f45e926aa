"""Turns, rollouts, samples and groups for tests of the trainer, from short lists of token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workers.training.admission.candidate import Candidate
from workers.training.credit.group import CreditOptions, credit_group
from workers.training.samples.arrays import floats, ids
from workers.training.samples.build import SamplePolicy, build_samples
from workers.training.samples.rollout import Rollout, RolloutKey, Turn
from workers.training.samples.sample import Sample


def build_turn(
    prompt: Sequence[int], completion: Sequence[int], *, version: int = 0, logprobs: Sequence[float] | None = None
) -> Turn:
    """A turn; the logprob of token t is -t/1000 unless given."""
    given = [-token / 1000 for token in completion] if logprobs is None else logprobs
    return Turn(ids(prompt), ids(completion), floats(given), ids([version] * len(completion)))


def build_rollout(*turns: Turn, group: int = 0, index: int = 0, reward: float | None = 0.0, **fields: Any) -> Rollout:
    """A rollout of one prompt and one completion, unless turns are given."""
    values = {"example": 0, "environment": "toy", "failed": reward is None, **fields}
    return Rollout(group=group, index=index, turns=turns or (build_turn([1, 2], [3, 4]),), reward=reward, **values)


def build_group(*rewards: float | None, group: int = 0, **fields: Any) -> tuple[Rollout, ...]:
    """A group of one-turn rollouts with these rewards; None: failed. The last token differs."""
    return tuple(
        build_rollout(build_turn([1, 2], [3, 4 + index]), group=group, index=index, reward=reward, **fields)
        for index, reward in enumerate(rewards)
    )


def build_sample(
    tokens: Sequence[int], train: Sequence[int], *, group: int = 0, index: int = 0, **fields: Any
) -> Sample:
    """A sample; `train` lists the trained positions. Logprob -id/1000, advantage the position, version 0."""
    flags = np.zeros(len(tokens), np.bool_)
    flags[list(train)] = True
    values: dict[str, Any] = {
        "ids": ids(tokens),
        "train": flags,
        "logprobs": np.where(flags, floats([-token / 1000 for token in tokens]), 0).astype(np.float32),
        "advantages": np.where(flags, np.arange(len(tokens)), 0).astype(np.float32),
        "versions": np.where(flags, 0, -1).astype(np.int32),
        "turns": np.where(flags, 0, -1).astype(np.int32),
        "rollout": RolloutKey(group, index),
    }
    return Sample(**{**values, **fields})


def build_candidate(group: Sequence[Rollout], policy: SamplePolicy | None = None) -> Candidate:
    """A group, credited by its mean."""
    credits = credit_group(group, CreditOptions())
    return Candidate(tuple(group), build_samples(group, credits, policy or SamplePolicy()).samples)
