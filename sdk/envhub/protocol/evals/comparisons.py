"""Wire types of comparisons of one environment's evaluations, example by example."""

from __future__ import annotations

from envhub.protocol.base import Response
from envhub.protocol.evals.evaluations import EvaluationView


class PairedDifference(Response):
    """B - A over the `count` examples that both have scored. The standard error is clustered by example."""

    name: str
    a: float  # mean over those examples
    b: float
    mean: float
    std_error: float | None = None  # None for a single example
    low: float  # of the 95 % interval
    high: float
    count: int
    is_clear: bool  # the interval excludes 0; if all differences are equal, there are at least six (a sign test)
    p_value: float | None = None  # two-sided paired t-test; if all differences are equal, a sign test


class ExamplePair(Response):
    """Mean rewards of an example that both have scored."""

    example: int
    a: float
    b: float
    difference: float


class ComparisonView(Response):
    """Evaluation B compared with A. `reward` is None if no example was scored by both."""

    a: EvaluationView
    b: EvaluationView
    reward: PairedDifference | None = None
    metrics: tuple[PairedDifference, ...] = ()
    examples: int  # scored by both
    better: int  # examples on which B is ahead
    worse: int  # examples on which A is ahead
    only_a: int  # scored only by one side, so left out
    only_b: int
    other_row: int  # left out because the rows under the same number differ (for a pushed evaluation: prompt or answer)
    pairs: tuple[ExamplePair, ...] = ()  # the first of `examples`, in the requested order


class MatrixPair(Response):
    """Evaluation `b` compared with `a`, given as indices into `evaluations`."""

    a: int
    b: int
    difference: PairedDifference | None = None  # None if no example was scored by both
    p_adjusted: float | None = None  # adjusted for all pairs by Holm's method
    better: int  # examples on which `b` is ahead
    worse: int
    is_clear: bool  # p_adjusted is below 0.05


class MatrixExample(Response):
    """The mean reward of each evaluation on one example, None if the evaluation has not scored this very row.

    An example is solved at a mean reward of at least 0.5.
    """

    example: int
    rewards: tuple[float | None, ...]
    broken: int  # evaluations that fail an example which the first one solves
    fixed: int  # evaluations that solve an example which the first one fails


class ComparisonMatrix(Response):
    """Evaluations side by side, over the examples that at least two have scored.

    The others are compared with the first. The summaries of `evaluations` cover all examples of each; the means and the
    difference of a pair cover the examples that both have scored.
    """

    evaluations: tuple[EvaluationView, ...]
    pairs: tuple[MatrixPair, ...] = ()
    examples: int  # scored by at least two
    found: int  # how many of them match the filter `only`
    alone: int  # examples left out because only one evaluation scored them
    rows: tuple[MatrixExample, ...] = ()
    next_page: int | None = None
