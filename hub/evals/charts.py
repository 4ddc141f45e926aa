"""Computes the charts of the evaluation page as geometry for inline SVG, in a 100 x 100 box that the page stretches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from envhub.protocol.evals.evaluations import EvaluationSummary, MetricSummary, PassAtK
from envhub.protocol.evals.rollouts import Outcome

from hub.evals.reward_shades import Shades, shades_of

ROUND = (1, 2, 3, 4, 5, 6, 8, 10, 15)  # halves of the possible count axes, times a power of ten
STEPS, MOST_STEPS = (1, 2, 2.5, 4, 5, 10), 4  # tick distances of a value axis, times a power of ten
_NEAR = 1e-6  # tolerance, as a share of a step, for rounding errors in sums of floats
_FLAT, _FAR = 1e-9, 1e300  # relative width below which a range counts as empty; magnitude from which no axis is drawn
MOST_K = 8  # rows of the pass@k table; with more, only powers of two and the last k are shown


@dataclass(frozen=True)
class Bin:
    """One bar of a histogram and the range of rewards that it covers."""

    x: float
    y: float
    width: float
    height: float
    count: int
    low: float
    high: float
    shade: int | None = None  # of its middle, where the values are rewards


@dataclass(frozen=True)
class Histogram:
    """Bars with their axes: `ticks` along the bottom from left to right, `counts` along the side from top to bottom."""

    bins: tuple[Bin, ...]
    ticks: tuple[float, ...]
    counts: tuple[int, ...]
    total: int


@dataclass(frozen=True)
class Bar:
    """An estimate in [0, 1] with an interval of one standard error, in percent; `fits` is False outside [0, 1]."""

    name: str
    value: float
    std_error: float | None
    count: int
    fits: bool
    width: float
    low: float
    span: float
    bound: float | None = None  # a lower or upper bound on the true value, where the standard error is uninformative


@dataclass(frozen=True)
class Share:
    """The share of one outcome among the stored rollouts, in percent."""

    name: str
    count: int
    x: float
    width: float
    tone: str


def histogram(summary: EvaluationSummary) -> Histogram | None:
    """Return the histogram of rewards, or None until a rollout is scored."""
    return equal_bins(summary.histogram, summary.histogram_min, summary.histogram_max, shades_of([summary]))


def equal_bins(counts: Sequence[int], low: float, high: float, shades: Shades | None = None) -> Histogram | None:
    """Draw counts in equal bins from `low` to `high`, in the `shades` of rewards where they are such; None if all
    counts are 0 or the values are too large for an axis.
    """
    most = max(counts, default=0)
    if not most or not abs(low) + abs(high) < _FAR:
        return None
    if high - low <= max(1 / _FAR, _FLAT * abs(low)):
        high = low + max(1.0, abs(low))
    half = _round_half(most)
    top = 2 * half if half else most
    ticks = _round_ticks(low, high)
    step, span = (high - low) / len(counts), ticks[-1] - ticks[0]
    width = 100 * step / span
    gap = min(0.4, width / 8)
    bins = tuple(
        Bin(
            x=round(100 * (low - ticks[0]) / span + index * width + gap, 3),
            y=round(100 - 100 * count / top, 3),
            width=round(width - 2 * gap, 3),
            height=round(100 * count / top, 3),
            count=count,
            low=round(low + index * step, 6),
            high=round(low + (index + 1) * step, 6),
            shade=shades.shade(low + (index + 0.5) * step) if shades else None,
        )
        for index, count in enumerate(counts)
    )
    return Histogram(bins=bins, ticks=ticks, counts=(top, half, 0) if half else (top, 0), total=sum(counts))


def _round_ticks(low: float, high: float) -> tuple[float, ...]:
    """Return evenly spaced ticks, from the last round value <= `low` to the first one >= `high`."""
    base = math.floor(math.log10((high - low) / MOST_STEPS))
    steps = (factor * 10.0**power for power in (base, base + 1) for factor in STEPS)
    ends = ((step, math.floor(low / step + _NEAR), math.ceil(high / step - _NEAR)) for step in steps)
    step, first, last = next(found for found in ends if found[2] - found[1] <= MOST_STEPS)
    return tuple(round(place * step, 2 - base) for place in range(first, last + 1))


def _round_half(most: int) -> int:
    """Return half of the smallest round count axis that fits `most`; 0 if `most` < 2, where no half exists."""
    if most < 2:
        return 0
    power = int(10 ** (len(str(most)) - 1))
    tens = (power // 10, power) if power > 1 else (power,)
    return next(step * ten for ten in tens for step in ROUND if 2 * step * ten >= most)


def metric_bar(metric: MetricSummary) -> Bar:
    """Return a metric as a bar."""
    return _bounded(_bar(metric.name, metric.mean, metric.std_error, metric.count), metric.bound)


def pass_at_k_bars(estimates: Sequence[PassAtK]) -> list[Bar]:
    """Return bars of pass@k for every k or, if there are many, for the powers of two and the last k."""
    many = len(estimates) > MOST_K
    last = estimates[-1].k if estimates else 0
    shown = [row for row in estimates if not many or row.k == last or row.k & (row.k - 1) == 0]
    return [_pass_bar(row) for row in shown]


def _pass_bar(row: PassAtK) -> Bar:
    return _bounded(_bar(f"pass@{row.k}", row.value, row.std_error, row.examples), row.bound)


def _bounded(bar: Bar, reach: float | None) -> Bar:
    """Let the whisker of a bar at 0 or 1 reach so far, where the standard error is uninformative."""
    if reach is None:
        return bar
    bound = bar.value - reach if bar.value else reach
    low, high = sorted((bar.value, bound))
    return replace(bar, bound=bound, low=round(100 * low, 3), span=round(100 * (high - low), 3))


def _bar(name: str, value: float, std_error: float | None, count: int) -> Bar:
    error = std_error or 0.0
    low, high = max(0.0, value - error), min(1.0, value + error)
    return Bar(
        name=name,
        value=value,
        std_error=std_error,
        count=count,
        fits=0.0 <= value <= 1.0,
        width=round(100 * min(1.0, max(0.0, value)), 3),
        low=round(100 * min(1.0, low), 3),
        span=round(100 * max(0.0, high - low), 3),
    )


def coverage(summary: EvaluationSummary) -> list[Share]:
    """Return the share of each outcome among the stored rollouts, scored ones first."""
    tones = {Outcome.OK.value: "good", Outcome.TRUNCATED.value: "warn"}
    names = sorted(summary.outcomes, key=lambda name: (list(tones).index(name) if name in tones else 2, name))
    total = max(1, sum(summary.outcomes.values()))
    shares: list[Share] = []
    x = 0.0
    for name in names:
        count, width = summary.outcomes[name], 100 * summary.outcomes[name] / total
        shares.append(Share(name, count, round(x, 3), round(width, 3), tones.get(name, "bad")))
        x += width
    return shares
