"""The geometry of figures: bars within their box, counts that add up."""

from __future__ import annotations

import pytest
from envhub.protocol.evals.evaluations import EvaluationSummary, MetricSummary, PassAtK
from hypothesis import given
from hypothesis import strategies as st

from hub.evals.charts import coverage, equal_bins, histogram, metric_bar, pass_at_k_bars


def summary(**changes: object) -> EvaluationSummary:
    return EvaluationSummary.model_validate({"planned": 8, "stored": 8, "scored": 8} | changes)


def test_the_highest_bar_fills_the_box_and_others_are_in_proportion() -> None:
    figure = histogram(summary(histogram=(4, 0, 1, 3)))
    assert figure is not None
    assert [(bin.height, bin.y) for bin in figure.bins] == [(100, 0), (0, 100), (25, 75), (75, 25)]
    assert [(bin.low, bin.high) for bin in figure.bins][1] == (0.25, 0.5)
    assert (figure.counts, figure.total, figure.ticks[-1]) == ((4, 2, 0), 8, 1.0)


def test_nothing_scored_is_no_figure() -> None:
    assert histogram(summary(histogram=(0, 0))) is None


def test_a_whisker_stays_inside_the_bar() -> None:
    bar = metric_bar(MetricSummary(name="m", mean=0.95, std_error=0.1, count=4))
    assert bar.width == 95
    assert bar.low == pytest.approx(85)
    assert bar.low + bar.span == pytest.approx(100)


def test_a_metric_beyond_one_has_no_bar() -> None:
    assert not metric_bar(MetricSummary(name="turns", mean=3.5, count=4)).fits


def test_of_many_k_the_powers_of_two_and_the_last_are_shown() -> None:
    bars = pass_at_k_bars([PassAtK(k=k, value=k / 20) for k in range(1, 13)])
    assert [bar.name for bar in bars] == ["pass@1", "pass@2", "pass@4", "pass@8", "pass@12"]


def test_shares_lie_side_by_side_scored_ones_first() -> None:
    shares = coverage(summary(outcomes={"infrastructure": 1, "ok": 6, "truncated": 1}))
    assert [(share.name, share.x, share.width) for share in shares] == [
        ("ok", 0, 75),
        ("truncated", 75, 12.5),
        ("infrastructure", 87.5, 12.5),
    ]


@pytest.mark.parametrize(
    ("most", "axis"),
    [(1, (1, 0)), (2, (2, 1, 0)), (3, (4, 2, 0)), (15, (16, 8, 0)), (18, (20, 10, 0)), (101, (120, 60, 0))],
)
def test_the_counts_beside_a_histogram_are_whole_and_round(most: int, axis: tuple[int, ...]) -> None:
    figure = equal_bins([most, 0, 1], 0, 3)
    assert figure is not None
    assert figure.counts == axis
    assert figure.bins[0].height == pytest.approx(100 * most / axis[0], abs=0.001)


@given(st.integers(2, 10**9))
def test_every_count_has_room(most: int) -> None:
    figure = equal_bins([most], 0, 1)
    assert figure is not None
    top, half, _ = figure.counts
    assert most <= top == 2 * half < 3 * most


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0)),
        (0.0, 0.375, (0.0, 0.1, 0.2, 0.3, 0.4)),
        (-0.15625, 0.09375, (-0.2, -0.1, 0.0, 0.1)),
        (-0.8, 0.8, (-0.8, -0.4, 0.0, 0.4, 0.8)),
        (0.0, 730.0, (0.0, 200.0, 400.0, 600.0, 800.0)),
        (2.0, 2.0, (2.0, 2.5, 3.0, 3.5, 4.0)),
        (9.99, 10.01, (9.99, 9.995, 10.0, 10.005, 10.01)),
    ],
)
def test_the_values_beneath_a_histogram_are_round_and_its_bars_lie_between(
    low: float, high: float, ticks: tuple[float, ...]
) -> None:
    figure = equal_bins([1, 2, 3], low, high)
    high = max(high, 2 * low) if high == low else high
    assert figure is not None
    assert figure.ticks == pytest.approx(ticks)
    assert figure.bins[0].x == pytest.approx(100 * (low - ticks[0]) / (ticks[-1] - ticks[0]), abs=0.5)
    last = figure.bins[-1]
    assert last.x + last.width == pytest.approx(100 * (high - ticks[0]) / (ticks[-1] - ticks[0]), abs=0.5)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(0, 1e300))
def test_every_range_that_can_be_drawn_has_a_few_ticks(low: float, width: float) -> None:
    figure = equal_bins([1], low, low + width)
    assert figure is None or 2 <= len(figure.ticks) <= 5
    assert figure is not None or abs(low) + width > 1e299


def test_the_whisker_of_a_bounded_mean_reaches_to_the_bound() -> None:
    bar = metric_bar(MetricSummary(name="m", mean=1.0, std_error=0.0, count=20, bound=0.14))
    assert (bar.low, bar.span, bar.bound) == (86.0, 14.0, pytest.approx(0.86))
