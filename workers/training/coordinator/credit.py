"""A finished group to a candidate for a batch: the trainer's rollouts, their credit, their samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from envhub.protocol.training.config import TrainingConfig
from envhub.protocol.training.trainer import Loss, Truncation

from workers.training.admission.candidate import Candidate
from workers.training.coordinator.plan import FinishedGroup
from workers.training.credit.group import CreditOptions, credit_group
from workers.training.credit.normalisation import Normalisation
from workers.training.samples.arrays import Reals
from workers.training.samples.build import SampleCounts, SamplePolicy, build_samples
from workers.training.samples.record import to_rollout

TRUNCATED: dict[Truncation, Literal["train", "zero_advantage", "drop"]] = {
    Truncation.TRAIN: "train",
    Truncation.ZERO: "zero_advantage",
    Truncation.DROP: "drop",
}


@dataclass(frozen=True, eq=False)
class Credited:
    """A group with everything that was made of it. `advantages` [rollouts]: the mean over turns, None without one."""

    finished: FinishedGroup
    candidate: Candidate
    counts: SampleCounts
    advantages: tuple[float | None, ...]


@dataclass(frozen=True)
class CreditRules:
    """How groups of one run are credited and cut into samples."""

    options: CreditOptions
    samples: SamplePolicy

    @classmethod
    def of(cls, config: TrainingConfig) -> CreditRules:
        """From the run's configuration."""
        trainer = config.trainer
        plain = trainer.loss is Loss.REINFORCE and config.largest_group == 1
        options = CreditOptions(
            baseline="none" if plain else "group_mean", scale_by_std=trainer.normalise_std, gamma=trainer.gamma
        )
        return cls(options, SamplePolicy(truncated=TRUNCATED[trainer.truncation], max_tokens=trainer.seq_len))

    def credit(self, finished: FinishedGroup) -> Credited:
        """Raises SampleError for records without tokens, CreditError."""
        plan = finished.plan
        rollouts = tuple(
            to_rollout(record, group=plan.number, environment=plan.label, temperature=plan.temperature)
            for record in finished.records
        )
        credits = credit_group(rollouts, self.options)
        built = build_samples(rollouts, credits, self.samples)
        return Credited(finished, Candidate(rollouts, built.samples), built.counts, tuple(map(mean_of, credits)))


def mean_of(credit: Reals | None) -> float | None:
    """One number for a rollout."""
    return float(np.mean(credit)) if credit is not None and len(credit) else None


def normalisation_of(config: TrainingConfig) -> tuple[Normalisation, int]:
    """The denominator's kind for the run's loss, and its constant where it has one."""
    loss = config.trainer.loss
    if loss in (Loss.GRPO, Loss.GSPO):
        return "sequence", 0
    if loss is Loss.DR_GRPO:
        longest = max(config.sampling_of(table).max_tokens or 0 for table in config.env)
        return "constant", longest or config.trainer.seq_len or 1024
    return "token", 0
