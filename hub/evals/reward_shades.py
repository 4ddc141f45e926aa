"""The colour scale of rewards: maps each reward to a shade, from the lowest to the highest reward shown together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from envhub.protocol.evals.evaluations import EvaluationSummary

SHADES = 5


@dataclass(frozen=True)
class Shades:
    """A scale from `low`, the palest, to `high`. If both are the same, no reward is above 0 and all are the palest."""

    low: float
    high: float

    def shade(self, reward: float | None) -> int | None:
        """Return the shade from 0 to SHADES - 1; None without a reward."""
        if reward is None:
            return None
        share = (reward - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return round(max(0.0, min(1.0, share)) * (SHADES - 1))


def shades_of(summaries: Iterable[EvaluationSummary]) -> Shades:
    """Return one scale for all evaluations. It begins at 0, unless there are negative rewards."""
    kept = list(summaries)
    lows, highs = [one.histogram_min for one in kept], [one.histogram_max for one in kept]
    return Shades(min(0.0, *lows), max(*lows, *highs))
