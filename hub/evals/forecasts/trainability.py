"""What an evaluation foretells of training on the same examples: the share of groups that carry a signal.

A group of G rollouts teaches only where its rewards differ. Of an example with n scored rollouts, c of them solved
(reward >= 0.5), the chance that G differ is estimated
- for G <= n without bias, by the groups that can be drawn from the n (as pass@k, Chen et al. 2021):
      1 - (C(c, G) + C(n-c, G)) / C(n, G)
- for G > n from a beta distribution of the examples' pass rates, with the mean and the intraclass correlation rho of
  the data (ANOVA estimator; Ridout, Demetrio & Firth 1999, section 2): a + b = (1 - rho) / rho, and with an example's
  posterior Beta(a + c, b + n - c)
      1 - E[p^G] - E[(1-p)^G],  E[p^G] = prod_{i<G} (a + c + i) / (a + b + n + i)
and averaged over the examples with n >= 2. Assumed are the evaluation's sampling, an untrained policy (the share moves
as it learns), and rewards that say solved or not: where they are finer, more groups differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, prod

from hub.evals.statistics import Aggregate

GROUP_SIZES = (4, 8, 16)
FEWEST = 2  # rollouts of an example that say whether they differ
STEPS, BATCH = 100, 64  # of the training run that is reckoned with
Counts = Sequence[tuple[int, int, int]]  # n, c, examples


@dataclass(frozen=True)
class GroupForecast:
    """share: of groups of `size` that carry a signal. drawn: whether it comes from drawing alone."""

    size: int
    share: float
    drawn: bool

    @property
    def sampled(self) -> float | None:
        """Rollouts to sample for each one that is trained on; None where none is."""
        return 1.0 / self.share if self.share > 0.001 else None

    @property
    def wasted(self) -> float:
        """The share of rollouts that teach nothing."""
        return 1.0 - self.share

    @property
    def rollouts(self) -> int | None:
        """Of STEPS steps of BATCH rollouts each, with those that are dropped."""
        return round(STEPS * BATCH * self.sampled) if self.sampled else None


@dataclass(frozen=True)
class Forecast:
    """`graded`: rewards are not only 0 and 1, so that the shares are the least to expect."""

    groups: tuple[GroupForecast, ...]
    examples: int
    graded: bool
    tokens: float  # output tokens of a rollout

    @property
    def best(self) -> GroupForecast:
        """That with the most signal; sizes are in order, so the smallest of equals."""
        return max(self.groups, key=lambda group: group.share)


def forecast(aggregate: Aggregate) -> Forecast | None:
    """None where no example has two scored rollouts."""
    counts = [(*_pair(key), examples) for key, examples in aggregate.solved.items()]
    counts = [row for row in counts if row[0] >= FEWEST]
    examples = sum(count for _, _, count in counts)
    if not examples:
        return None
    scale = 1000 >> aggregate.histogram.doublings
    graded = not set(aggregate.histogram.bins) <= {0, scale}
    groups = tuple(_group(size, counts, examples) for size in GROUP_SIZES)
    return Forecast(groups, examples, graded, aggregate.usage.completion_tokens / max(1, aggregate.stored))


def _pair(key: str) -> tuple[int, int]:
    n, _, solved = key.partition(":")
    return int(n), int(solved)


def _group(size: int, counts: Counts, examples: int) -> GroupForecast:
    drawn = all(n >= size for n, _, _ in counts)
    prior = None if drawn else beta_of(counts)
    total = sum(
        count * (differing(n, c, size) if n >= size else _expected(n, c, size, prior or (0.0, 0.0)))
        for n, c, count in counts
    )
    return GroupForecast(size, max(0.0, min(1.0, total / examples)), drawn)


def differing(n: int, c: int, size: int) -> float:
    """The share of groups of `size` out of n rollouts, c of them solved, that are not all alike."""
    return 1.0 - (comb(c, size) + comb(n - c, size)) / comb(n, size)


def _expected(n: int, c: int, size: int, prior: tuple[float, float]) -> float:
    a, b = prior
    if a + b == 0.0:  # every example is always solved, or never
        return 0.0
    solved = prod((a + c + i) / (a + b + n + i) for i in range(size))
    unsolved = prod((b + n - c + i) / (a + b + n + i) for i in range(size))
    return 1.0 - solved - unsolved


def beta_of(counts: Counts) -> tuple[float, float]:
    """a and b of the pass rates; (0, 0) where each example is always solved or never; huge where all are alike."""
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
