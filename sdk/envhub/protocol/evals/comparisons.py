"""Evaluations of one environment compared example by example, on the wire."""

from __future__ import annotations

from envhub.protocol.base import Response
from envhub.protocol.evals.evaluations import EvaluationView


class PairedDifference(Response):
    """B - A over the `count` examples that both have scored; the error is clustered by example."""

    name: str
    a: float  # means over those examples
    b: float
    mean: float
    std_error: float | None = None  # None: one example has no error
    low: float  # of the 95 % interval
    high: float
    count: int
    is_clear: bool  # the interval leaves out 0; of equal differences, six or more (a sign test)
    p_value: float | None = None  # two-sided, of a paired t-test; of equal differences, of a sign test


class ExamplePair(Response):
    """Mean rewards of one example that both have scored."""

    example: int
    a: float
    b: float
    difference: float


class ComparisonView(Response):
    """B against A. `reward` is None when no example was scored by both."""

    a: EvaluationView
    b: EvaluationView
    reward: PairedDifference | None = None
    metrics: tuple[PairedDifference, ...] = ()
    examples: int  # that both have scored
    better: int  # of these: B is ahead
    worse: int  # A is ahead
    only_a: int  # scored by one side alone, left out
    only_b: int
    other_row: int  # left out: under the same number the rows differ (of a pushed one: prompt or answer)
    pairs: tuple[ExamplePair, ...] = ()  # the first of `examples` in the order that was asked for


class MatrixPair(Response):
    """Evaluation `b` against `a`, by their places in `evaluations`."""

    a: int
    b: int
    difference: PairedDifference | None = None  # None: no example was scored by both
    p_adjusted: float | None = None  # by Holm's method over all pairs
    better: int  # examples on which `b` is ahead
    worse: int
    is_clear: bool  # p_adjusted is below 0.05


class MatrixExample(Response):
    """One example: the mean reward of each evaluation, None where it has not scored this very row.

    An example is solved at a mean reward of at least 0.5.
    """

    example: int
    rewards: tuple[float | None, ...]
    broken: int  # evaluations that do not solve what the first one solves
    fixed: int  # that solve what the first one does not


class ComparisonMatrix(Response):
    """Evaluations side by side over the examples that at least two have scored; the first is what the others are held
    against."""

    evaluations: tuple[EvaluationView, ...]
    pairs: tuple[MatrixPair, ...] = ()
    examples: int  # that at least two have scored
    found: int  # of these, as `only` keeps
    alone: int  # examples left out: one alone has scored them
    rows: tuple[MatrixExample, ...] = ()
    next_page: int | None = None
