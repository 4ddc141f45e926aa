"""Linear length penalty on rewards: rambling costs more where the group succeeds. Definition: prime-rl's `linear`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workers.training.samples.arrays import Reals
from workers.training.samples.merge import merge_turns
from workers.training.samples.rollout import Rollout


@dataclass(frozen=True)
class LengthPenalty:
    """Weights of the three terms, each scaled by the group's own maximum of that quantity."""

    output_tokens: float = 0.25  # sampled
    input_tokens: float = 0.1  # context
    turns: float = 0.1


def penalties(group: Sequence[Rollout], rewards: Reals, weights: LengthPenalty) -> Reals:
    """[G] what to subtract from each reward: mean(rewards) * sum of weight * quantity / max(quantity)."""
    if not len(rewards):
        return np.zeros(0)
    output = np.array([float(rollout.sampled_tokens) for rollout in group])
    inputs = np.array([float(_context_tokens(rollout)) for rollout in group])
    turns = np.array([float(len(rollout.turns)) for rollout in group])
    terms = ((weights.output_tokens, output), (weights.input_tokens, inputs), (weights.turns, turns))
    share = sum((weight * amount / max(1.0, float(amount.max())) for weight, amount in terms), np.zeros(len(group)))
    return float(rewards.mean()) * share


def _context_tokens(rollout: Rollout) -> int:
    return sum(len(sample) - sample.trained for sample in merge_turns(rollout).samples)
