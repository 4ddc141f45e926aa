"""The one colour scale of rewards: which shade a reward has, from the least to the most that is shown beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from envhub.protocol.evals.evaluations import EvaluationSummary

SHADES = 5


@dataclass(frozen=True)
class Shades:
    """From `low`, the palest, to `high`."""

    low: float
    high: float

    def shade(self, reward: float | None) -> int | None:
        """From 0 to SHADES - 1; None without a reward."""
        if reward is None:
            return None
        share = (reward - self.low) / (self.high - self.low) if self.high > self.low else 1.0
        return round(max(0.0, min(1.0, share)) * (SHADES - 1))


def shades_of(summaries: Iterable[EvaluationSummary]) -> Shades:
    """One scale for all of them. It begins at 0, unless there are rewards below."""
    kept = list(summaries)
    lows, highs = [one.histogram_min for one in kept], [one.histogram_max for one in kept]
    return Shades(min(0.0, *lows), max(*lows, *highs))
