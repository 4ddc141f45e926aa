"""Compares two evaluations of one environment example by example.

Both answered the same examples, so the difference is paired (Miller 2024, "Adding Error Bars to Evals", 4.2): with
d_g = (mean reward of B on example g) - (mean reward of A on g) for the G examples that both have scored,
 difference = mean of d_g        se = s(d) / sqrt(G)
The examples are the clusters. The difficulty of an example cancels out, so this error is smaller than an unpaired one.
Two examples with the same number are compared only if they are the same row (by hash). Rows of evaluations that this
hub did not run are not known as a whole; these are matched by prompt and answer (envhub.packaging.example_content).
If all differences are equal, the error is 0 (for example, two examples that both went from 0 to 1), which says nothing
about the next example. Then a two-sided sign test decides: 2 * 0.5^G is below 0.05 from 6 examples on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from envhub.protocol.evals.evaluations import MetricSummary

from hub.evals.statistics import Aggregate, Cell, ScoredExample

_Z = 1.959964  # of a two-sided 95 % interval
_FEW_FREEDOMS = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139)
SAME = 1e-9
_CHANCE = 0.05  # significance level of the sign test


@dataclass(frozen=True)
class ExampleMeans:
    """The means of one example's scored rollouts; `digest` hashes its row, `content` its prompt and answer."""

    digest: str
    content: str
    reward: float
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Pair:
    """The mean rewards of one example that both evaluations have scored."""

    example: int
    a: float
    b: float

    @property
    def difference(self) -> float:
        """B - A; differences due to rounding count as 0."""
        difference = self.b - self.a
        return difference if abs(difference) > SAME else 0.0


@dataclass(frozen=True)
class Difference:
    """B - A over `count` examples: `a` and `b` are the means over these; low..high is the 95 % interval."""

    name: str
    a: float
    b: float
    mean: float
    std_error: float | None
    low: float
    high: float
    count: int

    @property
    def is_equal(self) -> bool:
        """Whether all differences are equal, so that error and interval say nothing about the next example."""
        return self.std_error is not None and self.std_error <= SAME

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 0 or, if all differences are equal, whether a sign test is significant."""
        if self.std_error is None or not (self.low > SAME or self.high < -SAME):
            return False
        return not self.is_equal or equal_is_clear(self.count)


@dataclass(frozen=True)
class Comparison:
    """The comparison of two evaluations; `reward` is None if they share no scored example."""

    reward: Difference | None
    metrics: tuple[Difference, ...]
    pairs: tuple[Pair, ...]
    only_a: int
    only_b: int
    other_row: int

    @property
    def better(self) -> int:
        """Number of examples on which B is ahead."""
        return sum(pair.difference > 0 for pair in self.pairs)

    @property
    def worse(self) -> int:
        """Number of examples on which A is ahead."""
        return sum(pair.difference < 0 for pair in self.pairs)


def example_means(scores: Mapping[int, ScoredExample], aggregate: Aggregate) -> dict[int, ExampleMeans]:
    """Map examples to their means; examples without a scored rollout are left out."""
    if aggregate.reward is None:
        return {}
    shifts = {name: moments.shift for name, moments in aggregate.metrics.items()}
    return {
        example: ExampleMeans(
            digest=score.digest,
            content=score.content,
            reward=_mean(score.tally.reward, aggregate.reward.shift),
            metrics={name: _mean(cell, shifts[name]) for name, cell in score.tally.metrics.items() if cell.n},
        )
        for example, score in scores.items()
        if score.tally.reward.n
    }


def mean_interval(reward: MetricSummary | None, examples: int) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean over so many examples: mean +- t * se with examples - 1 degrees of freedom.

    None if the error is unknown, or 0 and so says nothing about the next example.
    """
    if reward is None or reward.std_error is None or reward.std_error <= SAME:
        return None
    reach = reward.std_error * student_t(examples - 1)
    return reward.mean - reach, reward.mean + reach


def _mean(cell: Cell, shift: float) -> float:
    return shift + cell.total / cell.n


def compare(a: Mapping[int, ExampleMeans], b: Mapping[int, ExampleMeans], *, by_content: bool = False) -> Comparison:
    """Compare B with A on the examples that both have scored.

    by_content: rows with the same prompt and answer also count as the same.
    """
    numbers = sorted(a.keys() & b.keys())
    shared = [number for number in numbers if same_row(a[number], b[number], by_content)]
    pairs = tuple(Pair(number, a[number].reward, b[number].reward) for number in shared)
    names = sorted({name for number in shared for name in a[number].metrics.keys() & b[number].metrics.keys()})
    return Comparison(
        reward=difference("reward", [(pair.a, pair.b) for pair in pairs]) if pairs else None,
        metrics=tuple(difference(name, _both(name, shared, a, b)) for name in names),
        pairs=pairs,
        only_a=len(a.keys() - b.keys()),
        only_b=len(b.keys() - a.keys()),
        other_row=len(numbers) - len(shared),
    )


def same_row(a: ExampleMeans, b: ExampleMeans, by_content: bool) -> bool:
    """Return whether two examples with the same number are the same row; with by_content, prompt and answer suffice."""
    if a.digest == b.digest or not a.digest or not b.digest:
        return True
    return by_content and bool(a.content) and a.content == b.content


def _both(
    name: str, examples: Sequence[int], a: Mapping[int, ExampleMeans], b: Mapping[int, ExampleMeans]
) -> list[tuple[float, float]]:
    having = [example for example in examples if name in a[example].metrics and name in b[example].metrics]
    return [(a[example].metrics[name], b[example].metrics[name]) for example in having]


def difference(name: str, pairs: Sequence[tuple[float, float]]) -> Difference:
    """Return the paired difference of at least one pair of means."""
    differences = [b - a for a, b in pairs]
    mean, count = fmean(differences), len(differences)
    error = stdev(differences) / math.sqrt(count) if count > 1 else None
    reach = error * student_t(count - 1) if error is not None else 0.0
    return Difference(
        name=name,
        a=fmean(a for a, _ in pairs),
        b=fmean(b for _, b in pairs),
        mean=mean,
        std_error=error,
        low=mean - reach,
        high=mean + reach,
        count=count,
    )


def equal_is_clear(count: int) -> bool:
    """Return whether so many equal differences other than 0 are significant by a two-sided sign test."""
    return 2 * 0.5**count < _CHANCE


def student_t(freedom: int) -> float:
    """Return the 97.5 % point of Student's t: by table for few degrees of freedom, else expanded in 1/freedom.

    The expansion is Abramowitz & Stegun 26.7.5.
    """
    if freedom <= len(_FEW_FREEDOMS):
        return _FEW_FREEDOMS[freedom - 1]
    z = _Z
    terms = (
        z,
        (z**3 + z) / (4 * freedom),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3),
    )
    return sum(terms)
