"""Predicts from an evaluation what training on the same examples would be like: the share of groups with a signal, and
how large their advantages are.

A group of G rollouts teaches something only if its rewards differ. How often groups of G <= n rollouts of an example
differ is known from its n rewards, whatever they are (formulas: hub.evals.signal). For G > n
- if all rewards are 0 or 1, a beta distribution of the examples' pass rates tells it, with the mean and the intraclass
  correlation rho of the data (ANOVA estimator; Ridout, Demetrio & Firth 1999, section 2): a + b = (1 - rho) / rho, and
  with the posterior Beta(a + c, b + n - c) of an example with c of n rollouts solved
      1 - E[p^G] - E[(1-p)^G],  E[p^G] = prod_{i<G} (a + c + i) / (a + b + n + i)
- for other rewards, the share is at least that of groups of n rollouts.
Shares are averaged over the examples with n >= 2. The forecast assumes the evaluation's sampling and an untrained
policy: the share changes as it learns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from hub.evals.signal import FEWEST, GROUP_SIZES, Signal, differing
from hub.evals.statistics import Aggregate

STEPS, BATCH = 100, 64  # of the assumed training run
Counts = Sequence[tuple[int, int, int]]  # n, c, examples


@dataclass(frozen=True)
class GroupForecast:
    """share: of groups of `size` that carry a signal, or a lower bound of it; drawn: whether G <= n for all examples.

    advantage: the root mean square of the advantages of its rollouts, in units of the reward.
    """

    size: int
    share: float
    drawn: bool
    is_bound: bool
    advantage: float

    @property
    def sampled(self) -> float | None:
        """Rollouts to sample for each one that is trained on; None if no group carries a signal."""
        return 1.0 / self.share if self.share > 0.001 else None

    @property
    def wasted(self) -> float:
        """The share of rollouts that teach nothing."""
        return 1.0 - self.share

    @property
    def rollouts(self) -> int | None:
        """Rollouts to sample for STEPS steps of BATCH rollouts each, including those that are dropped."""
        return round(STEPS * BATCH * self.sampled) if self.sampled else None


@dataclass(frozen=True)
class Forecast:
    """`graded`: whether rewards other than 0 and 1 occur."""

    groups: tuple[GroupForecast, ...]
    examples: int
    graded: bool
    tokens: float  # output tokens per rollout

    @property
    def best(self) -> GroupForecast:
        """The group size with the most signal, the smallest if several are equal (sizes are in order)."""
        return max(self.groups, key=lambda group: group.share)

    @property
    def has_bounds(self) -> bool:
        """Whether some of the shares are lower bounds."""
        return any(group.is_bound for group in self.groups)


def forecast(aggregate: Aggregate) -> Forecast | None:
    """Return the forecast; None if no example has two scored rollouts."""
    signal = aggregate.signal
    if not signal.examples:
        return None
    scale = 1000 >> aggregate.histogram.doublings
    graded = not set(aggregate.histogram.bins) <= {0, scale}
    counts = [(*_pair(key), examples) for key, examples in aggregate.solved.items()]
    counts = [row for row in counts if row[0] >= FEWEST]
    groups = tuple(_group(size, signal, counts, graded=graded) for size in GROUP_SIZES)
    return Forecast(groups, signal.examples, graded, aggregate.usage.completion_tokens / max(1, aggregate.stored))


def _pair(key: str) -> tuple[int, int]:
    n, _, solved = key.partition(":")
    return int(n), int(solved)


def _group(size: int, signal: Signal, counts: Counts, *, graded: bool) -> GroupForecast:
    drawn = not signal.short.get(size)
    share = signal.share(size) if graded or drawn else _extrapolated(size, counts)
    return GroupForecast(size, share, drawn, graded and not drawn and share < 1, signal.advantage(size))


def _extrapolated(size: int, counts: Counts) -> float:
    """Return the share of groups that are larger than some examples' rollouts, for rewards of 0 and 1."""
    prior, examples = beta_of(counts), sum(count for _, _, count in counts)
    total = sum(count * (_drawn(n, c, size) if n >= size else _expected(n, c, size, prior)) for n, c, count in counts)
    return max(0.0, min(1.0, total / examples))


def _drawn(n: int, c: int, size: int) -> float:
    return differing({"1": c, "0": n - c}, n, size)


def _expected(n: int, c: int, size: int, prior: tuple[float, float]) -> float:
    a, b = prior
    if a + b == 0.0:  # every example is either always or never solved
        return 0.0
    solved = prod((a + c + i) / (a + b + n + i) for i in range(size))
    unsolved = prod((b + n - c + i) / (a + b + n + i) for i in range(size))
    return 1.0 - solved - unsolved


def beta_of(counts: Counts) -> tuple[float, float]:
    """Return a and b of the distribution of pass rates.

    Both are 0 if each example is always or never solved, and huge if all examples have the same pass rate.
    """
    examples = sum(count for _, _, count in counts)
    rollouts = sum(n * count for n, _, count in counts)
    mean = sum(c * count for _, c, count in counts) / rollouts
    within = sum(count * c * (n - c) / n for n, c, count in counts) / max(1, rollouts - examples)
    between = sum(count * n * (c / n - mean) ** 2 for n, c, count in counts) / max(1, examples - 1)
    size = (rollouts - sum(n * n * count for n, _, count in counts) / rollouts) / max(1, examples - 1)
    if within == 0.0:
        return (0.0, 0.0)
    rho = (between - within) / (between + (size - 1) * within) if examples > 1 else 0.0
    both = (1 - rho) / max(rho, 1e-6)
    return (mean * both, (1 - mean) * both)
