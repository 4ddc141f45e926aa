"""The statistics of an evaluation, updated row by row: the cost of a summary does not grow with the rollouts.

Only `ExampleTally` (one per example) and `Aggregate` (one per evaluation) are stored, both as JSON. A rollout without a
reward (any failure) enters the coverage and the token counts, never a mean: an infrastructure failure is not a 0.

Mean and standard error (Miller 2024, "Adding Error Bars to Evals"; Cameron & Miller 2015, II.C). Rollouts of one
example are not independent, so examples are the clusters g = 1..G with n_g scored rollouts that sum to S_g:
 mean = sum S_g / N,  N = sum n_g        se^2 = G/(G-1) * sum (S_g - n_g mean)^2 / N^2
(the CR1 estimator of an intercept; for equal n_g it is the standard error of the G example means; None for G < 2).
Sums are taken of x - shift, where the shift is the first value, to avoid cancellation (Chan, Golub & LeVeque 1983).

pass@k (Chen et al. 2021, arXiv:2107.03374, eq. 1): for an example with n scored rollouts of which c are solved,
 pass@k = 1 - C(n-c, k) / C(n, k)
as a product of ratios in [0, 1] (no factorials), averaged over the examples with n >= k; its standard error is
s / sqrt(examples). Solved means reward >= 0.5, the pass_threshold of verifiers.

While an evaluation runs, pass@k counts only examples with all their rollouts, since examples that end early differ from
those that end late.

If all m examples agree on 0 or 1, s (or se) is 0 and says nothing. The true pass@k then differs by at most
1 - 0.05^(1/m), with 95 % confidence (one-sided; Clopper & Pearson 1934, "The use of confidence or fiducial limits"):
with a larger share of other examples, m that agree would be rarer than 5 %. The same holds for the mean reward if
rewards lie in [0, 1]. No environment declares their range, so this is assumed if all rewards are 0 or all are 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from envhub.protocol.evals.evaluations import EvaluationSummary, IndexRow, MetricSummary, PassAtK
from envhub.protocol.evals.rollouts import Outcome, Usage
from envhub.protocol.runs import FailureKind
from pydantic import BaseModel, Field

from hub.evals.signal import Rewards, Signal

PASS_THRESHOLD = 0.5
# Names that are summarised, so that a package that invents names cannot grow the aggregate without limit.
MAX_METRICS = 100
BINS = 20
_FINEST = 0.001  # width of the narrowest bins
_MAX_SPAN = 1024  # bins kept at most; for wider ranges, the width is doubled
_CLAMP = 1e12


@dataclass(slots=True)
class Cell:
    """The scored rollouts of one example: their number and the sum of value - shift."""

    n: int = 0
    total: float = 0.0


@dataclass(slots=True)
class Moments:
    """The sums over clusters that mean and clustered standard error need: S, S^2, S n and n^2."""

    shift: float
    n: int = 0
    clusters: int = 0
    total: float = 0.0
    squares: float = 0.0
    cross: float = 0.0
    sizes: int = 0

    def add(self, cell: Cell, value: float) -> None:
        """Add one value to the cluster `cell`."""
        n, before = cell.n, cell.total
        after = before + value - self.shift
        self.n += 1
        self.clusters += n == 0
        self.total += after - before
        self.squares += after**2 - before**2
        self.cross += after * (n + 1) - before * n
        self.sizes += 2 * n + 1
        cell.n, cell.total = n + 1, after

    def summary(self, name: str) -> MetricSummary:
        """Return mean and standard error."""
        mean = self.total / self.n
        return MetricSummary(name=name, mean=self.shift + mean, std_error=self._std_error(mean), count=self.n)

    def _std_error(self, mean: float) -> float | None:
        if self.clusters < 2:
            return None
        residuals = max(0.0, self.squares - 2 * mean * self.cross + mean**2 * self.sizes)
        return math.sqrt(self.clusters / (self.clusters - 1) * residuals) / self.n


class ExampleTally(BaseModel):
    """Everything about one example that the statistics need."""

    reward: Cell = Field(default_factory=Cell)
    solved: int = 0
    rewards: Rewards = Field(default_factory=Rewards)
    metrics: dict[str, Cell] = Field(default_factory=dict)


class ScoredExample(NamedTuple):
    """What is stored of one example: hashes of its row and of its prompt and answer, and its rollouts' scores."""

    digest: str
    content: str
    tally: ExampleTally


class Histogram(BaseModel):
    """Counts in sparse bins of width 0.001 * 2**doublings. The range may grow; counts are never lost."""

    doublings: int = 0
    bins: dict[int, int] = Field(default_factory=dict)

    def add(self, value: float) -> None:
        """Count one value (values beyond +-1e12 count in the outermost bin)."""
        clamped = max(-_CLAMP, min(_CLAMP, value))
        index = math.floor(clamped / _FINEST + 1e-6) >> self.doublings
        self.bins[index] = self.bins.get(index, 0) + 1
        while max(self.bins) - min(self.bins) > _MAX_SPAN:
            self._double()

    def _double(self) -> None:
        merged: Counter[int] = Counter()
        for index, count in self.bins.items():
            merged[index >> 1] += count
        self.bins = dict(merged)
        self.doublings += 1

    def equal_bins(self) -> tuple[tuple[int, ...], float, float]:
        """Return (counts, low, high) in BINS equal bins: over [0, 1] if all values lie there, else over their range."""
        width = _FINEST * 2**self.doublings
        low, high = 0, round(1 / _FINEST)
        if self.bins and (self.doublings or min(self.bins) < low or max(self.bins) > high):
            low, high = min(self.bins), max(self.bins) + 1
        counts = [0] * BINS
        for index, count in self.bins.items():
            counts[min(BINS - 1, (index - low) * BINS // (high - low))] += count
        return tuple(counts), low * width, high * width


class Aggregate(BaseModel):
    """The running statistics of one evaluation."""

    stored: int = 0
    outcomes: dict[str, int] = Field(default_factory=dict)
    usage: Usage = Usage()
    judge_usage: Usage = Usage()
    reward: Moments | None = None
    metrics: dict[str, Moments] = Field(default_factory=dict)
    solved: dict[str, int] = Field(default_factory=dict)  # "n:c" -> examples with n scored rollouts, c of them solved
    histogram: Histogram = Field(default_factory=Histogram)
    signal: Signal = Field(default_factory=Signal)

    @property
    def scored_examples(self) -> int:
        """The number of examples with a scored rollout."""
        return self.reward.clusters if self.reward else 0

    def add(self, tally: ExampleTally, row: IndexRow) -> None:
        """Count one new rollout of the example that `tally` belongs to; updates both."""
        self._cover(row.outcome, row.failure_kind, row.usage, row.judge_usage, 1)
        if row.outcome is Outcome.FAILED:
            return
        if row.reward is not None:
            self._add_reward(tally, row.reward)
        for name, value in row.metrics.items():
            if name in self.metrics or len(self.metrics) < MAX_METRICS:
                moments = self.metrics.setdefault(name, Moments(shift=value))
                moments.add(tally.metrics.setdefault(name, Cell()), value)

    def forget_failed(self, kind: FailureKind | None, usage: Usage, judge_usage: Usage) -> None:
        """Stop counting a failed rollout that is about to be replaced by its next attempt."""
        self._cover(Outcome.FAILED, kind, usage, judge_usage, -1)

    def _cover(self, outcome: Outcome, kind: FailureKind | None, usage: Usage, judge: Usage, sign: int) -> None:
        key = coverage_key(outcome, kind)
        self.stored += sign
        self.outcomes[key] = self.outcomes.get(key, 0) + sign
        self.usage = _plus(self.usage, usage, sign)
        self.judge_usage = _plus(self.judge_usage, judge, sign)

    def _add_reward(self, tally: ExampleTally, reward: float) -> None:
        if self.reward is None:
            self.reward = Moments(shift=reward)
        self._count_solved(tally, -1)
        self.signal.count(tally.rewards, -1)
        self.reward.add(tally.reward, reward)
        tally.rewards.add(reward, self.reward.shift)
        tally.solved += reward >= PASS_THRESHOLD
        self._count_solved(tally, 1)
        self.signal.count(tally.rewards, 1)
        self.histogram.add(reward)

    def _count_solved(self, tally: ExampleTally, sign: int) -> None:
        if tally.reward.n:
            key = f"{tally.reward.n}:{tally.solved}"
            self.solved[key] = self.solved.get(key, 0) + sign
            if not self.solved[key]:
                del self.solved[key]

    def _reward_summary(self, reward: Moments) -> MetricSummary:
        summary = reward.summary("reward")
        is_one_value = len(self.histogram.bins) == 1 and summary.std_error == 0.0
        if not is_one_value or summary.mean not in (0.0, 1.0):
            return summary
        return summary.model_copy(update={"bound": agreement_bound(reward.clusters)})

    def summary(self, *, planned: int, rollouts_per_example: int, partial: bool = False) -> EvaluationSummary:
        """Return the figures that pages and the API show; `pass_at_k` for every k up to rollouts_per_example.

        partial: whether rollouts are still to come.
        """
        pairs = [(*_pair(key), examples) for key, examples in self.solved.items()]
        if partial:
            pairs = [pair for pair in pairs if pair[0] >= rollouts_per_example]
        histogram, low, high = self.histogram.equal_bins()
        return EvaluationSummary(
            planned=planned,
            stored=self.stored,
            scored=sum(self.outcomes.get(outcome.value, 0) for outcome in (Outcome.OK, Outcome.TRUNCATED)),
            outcomes={key: count for key, count in sorted(self.outcomes.items()) if count},
            reward=self._reward_summary(self.reward) if self.reward else None,
            pass_at_k=tuple(pass_at_k(pairs, rollouts_per_example)),
            metrics=tuple(self.metrics[name].summary(name) for name in sorted(self.metrics)),
            usage=self.usage,
            judge_usage=self.judge_usage,
            histogram=histogram,
            histogram_min=low,
            histogram_max=high,
        )


def agreement_bound(examples: int) -> float:
    """Return the largest share of other examples that is compatible with so many that all agree; see the module."""
    return 1.0 - math.pow(0.05, 1.0 / examples)


def _pair(key: str) -> tuple[int, int]:
    n, _, solved = key.partition(":")
    return int(n), int(solved)


def coverage_key(outcome: Outcome, kind: FailureKind | None) -> str:
    """Return the name under which an outcome is counted: ok, truncated, or the kind of the failure."""
    return outcome.value if outcome is not Outcome.FAILED else (kind or FailureKind.ENVIRONMENT).value


def chance_of_all_failing(n: int, solved: int, most: int) -> list[float]:
    """Return C(n-c, k) / C(n, k) for k = 1..min(n, most): the chance that k of the n rollouts are all unsolved."""
    chances, chance = [], 1.0
    for drawn in range(min(n, most)):
        chance *= max(0, n - solved - drawn) / (n - drawn)
        chances.append(chance)
    return chances


def pass_at_k(pairs: Iterable[tuple[int, int, int]], most: int) -> Iterator[PassAtK]:
    """Yield the estimates for k = 1..most from triples (n, solved, examples), without k that no example reaches."""
    weighted = [(chance_of_all_failing(n, solved, most), examples) for n, solved, examples in pairs]
    for k in range(1, most + 1):
        values = [(1.0 - chances[k - 1], examples) for chances, examples in weighted if len(chances) >= k]
        count = sum(examples for _, examples in values)
        if not count:
            return
        mean = math.fsum(value * examples for value, examples in values) / count
        alike = count > 1 and mean in (0.0, 1.0)
        bound = agreement_bound(count) if alike else None
        yield PassAtK(k=k, value=mean, std_error=_std_error(values, mean, count), examples=count, bound=bound)


def _std_error(values: list[tuple[float, int]], mean: float, count: int) -> float | None:
    if count < 2:
        return None
    squares = math.fsum(examples * (value - mean) ** 2 for value, examples in values)
    return math.sqrt(squares / (count - 1) / count)


def _plus(left: Usage, right: Usage, sign: int) -> Usage:
    return Usage(
        prompt_tokens=left.prompt_tokens + sign * right.prompt_tokens,
        completion_tokens=left.completion_tokens + sign * right.completion_tokens,
    )
