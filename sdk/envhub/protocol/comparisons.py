"""Two evaluations of one environment compared example by example, on the wire."""

from __future__ import annotations

from envhub.protocol.base import Response
from envhub.protocol.evals import EvaluationView


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
