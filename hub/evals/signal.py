"""How much signal groups of rollouts carry for training, updated row by row for all examples together. Pure.

GRPO's advantage of a rollout is its reward minus the mean of its group (Shao et al. 2024, arXiv:2402.03300, section
4.1.2), so a group whose rewards are all equal teaches nothing (Yu et al. 2025, arXiv:2503.14476, section 3.2). For an
example with n scored rollouts, m_v of them with the reward v:
- the share of groups of G <= n rollouts, drawn from the n, whose rewards are not all equal is
      1 - sum_v C(m_v, G) / C(n, G)
  which is without bias for the policy's own groups (as pass@k, Chen et al. 2021). For G > n, whether the n differ is
  counted instead: a larger group differs at least as often.
- the mean square of the advantages in a group of G rollouts is (1 - 1/G) s^2, with the unbiased variance s^2 of the
  example's rewards.
Both are averaged over the examples with n >= 2. Rewards are the same if they agree in nine digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from math import comb

from pydantic import BaseModel, Field

GROUP_SIZES = (4, 8, 16)
FEWEST = 2  # rollouts that an example needs before one can say whether they differ
MOST_VALUES = 64  # different rewards remembered of an example; further ones count as different from all others


def reward_key(reward: float) -> str:
    """Return a reward as it is compared with others."""
    return f"{reward + 0.0:.9g}"  # + 0.0: -0.0 is 0.0


class Rewards(BaseModel):
    """The scored rollouts of one example: how many have which reward, and the sums of reward - shift."""

    counts: dict[str, int] = Field(default_factory=dict)
    n: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, reward: float, shift: float) -> None:
        """Count one rollout."""
        key = reward_key(reward)
        if key in self.counts or len(self.counts) < MOST_VALUES:
            self.counts[key] = self.counts.get(key, 0) + 1
        self.n += 1
        self.total += reward - shift
        self.squares += (reward - shift) ** 2

    @property
    def variance(self) -> float:
        """The unbiased variance, of at least two rollouts."""
        if max(self.counts.values(), default=0) == self.n:
            return 0.0  # not what rounding leaves
        return max(0.0, (self.squares - self.total**2 / self.n) / (self.n - 1))


def differing(counts: Mapping[str, int], n: int, size: int) -> float:
    """Return the share of groups of `size`, drawn from n rollouts, whose rewards are not all equal."""
    return 1.0 - sum(comb(count, size) for count in counts.values()) / comb(n, size)


class Signal(BaseModel):
    """Sums over the examples with at least two scored rollouts, by group size.

    short: examples with fewer rollouts than a group of this size has.
    """

    examples: int = 0
    shares: dict[int, float] = Field(default_factory=dict)
    short: dict[int, int] = Field(default_factory=dict)
    variance: float = 0.0

    def count(self, rewards: Rewards, sign: int) -> None:
        """Add an example's part (sign 1), or take it away before it changes (-1)."""
        if rewards.n < FEWEST:
            return
        self.examples += sign
        self.variance += sign * rewards.variance
        for size in GROUP_SIZES:
            share = differing(rewards.counts, rewards.n, min(size, rewards.n))
            self.shares[size] = self.shares.get(size, 0.0) + sign * share
            self.short[size] = self.short.get(size, 0) + sign * (rewards.n < size)

    def share(self, size: int) -> float:
        """Return the mean share of groups that differ; a lower bound if some example is short of rollouts."""
        return min(1.0, max(0.0, self.shares.get(size, 0.0) / self.examples))

    def advantage(self, size: int) -> float:
        """Return the root mean square of the advantages in groups of `size`, in units of the reward."""
        return math.sqrt(max(0.0, self.variance / self.examples) * (1 - 1 / size))
