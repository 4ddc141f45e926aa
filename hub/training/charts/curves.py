"""Computes a training run's charts as geometry for inline SVG, in 100 x 100 boxes that the page stretches. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from envhub.protocol.training.metrics import EvaluationPoint, StepMetrics

from hub.training.charts.panels import Panel, panels_of
from hub.training.charts.scales import DIGITS, Scale, scale_of, short, tick_texts

POINTS = 200  # points per line
MOST_LINES = 6  # lines per chart
SEPARATOR = "|"


@dataclass(frozen=True)
class Line:
    """One curve. `band` is the area between the lowest and highest steps behind each point; "" if it is one step each.

    texts: the value at each of the chart's steps as text, shown under the pointer.
    """

    name: str
    tone: int
    path: str
    band: str
    texts: str
    last: str
    dots: str = ""  # of evaluations
    whiskers: str = ""


@dataclass(frozen=True)
class Chart:
    """Lines over the same steps, with their axes: `ticks` from top to bottom, `steps` as text."""

    key: str
    title: str
    note: str
    wide: bool
    steps: str
    lines: tuple[Line, ...]
    left_out: int
    ticks: tuple[str, ...]
    rules: tuple[float, ...]  # y coordinate of each tick


@dataclass(frozen=True)
class Bucket:
    """Consecutive steps that are drawn as one point."""

    step: int
    steps: tuple[StepMetrics, ...]


@dataclass(frozen=True)
class Span:
    """The x axis, shared by all charts.

    words: formats a position with this many significant digits; the text of the first is preceded by `prefix`.
    """

    first: int
    last: int
    words: Callable[[int, int], str] = lambda place, digits: str(place)
    prefix: str = "step "

    def x(self, step: int) -> float:
        """Return the x coordinate of a step, from 0 to 100."""
        return round(100 * (step - self.first) / max(1, self.last - self.first), 2)

    @property
    def ticks(self) -> tuple[int, ...]:
        """The first, middle and last step, without repetitions."""
        middle = (self.first + self.last) // 2
        return tuple(sorted({self.first, middle, self.last}))

    @property
    def texts(self) -> tuple[str, ...]:
        """The ticks as text, with as few digits as distinguish them."""
        written = [tuple(self.words(tick, digits) for tick in self.ticks) for digits in DIGITS]
        return next((texts for texts in written if len(set(texts)) == len(texts)), written[-1])


def span_of(steps: Sequence[StepMetrics], evaluations: Sequence[EvaluationPoint]) -> Span:
    """Return the range of steps, including evaluations before the first step."""
    numbers = [one.step for one in steps] + [point.step for point in evaluations]
    return Span(min(numbers), max(numbers))


def charts_of(steps: Sequence[StepMetrics], evaluations: Sequence[EvaluationPoint]) -> list[Chart]:
    """Return every chart that has something to show."""
    if not steps:
        return []
    span, buckets = span_of(steps, evaluations), buckets_of(steps)
    drawn = (_chart(panel, buckets, span, evaluations if panel.evaluated else ()) for panel in panels_of(steps))
    return [chart for chart in drawn if chart is not None]


def buckets_of(steps: Sequence[StepMetrics], most: int = POINTS) -> list[Bucket]:
    """Group the steps into at most `most` buckets with equally many steps."""
    size = -(-len(steps) // most)
    return [
        Bucket(steps[first : first + size][-1].step, tuple(steps[first : first + size]))
        for first in range(0, len(steps), size)
    ]


def _chart(panel: Panel, buckets: Sequence[Bucket], span: Span, points: Sequence[EvaluationPoint]) -> Chart | None:
    values = [[panel.lines(step) for step in bucket.steps] for bucket in buckets]
    names = list(dict.fromkeys(name for bucket in values for lines in bucket for name in lines))
    curves = {name: [_numbers(lines.get(name) for lines in bucket) for bucket in values] for name in names}
    curves = {name: curve for name, curve in curves.items() if any(curve)}
    labels = sorted({point.label for point in points if point.reward_mean is not None})
    if not curves and not labels:
        return None
    numbers = [value for curve in curves.values() for bucket in curve for value in bucket]
    numbers += [value for point in points for value in whisker(point)]
    scale = scale_of(numbers, from_zero=panel.from_zero, unit_range=panel.unit_range)
    xs = [span.x(bucket.step) for bucket in buckets]
    shown = list(curves.items())[:MOST_LINES]
    lines = [_line(name, tone, curve, xs, scale, panel.unit) for tone, (name, curve) in enumerate(shown)]
    for label in labels[:MOST_LINES]:
        own = [point for point in points if point.label == label]
        lines.append(_evaluated(label, len(lines), own, buckets, span, scale, panel.unit))
    return Chart(
        key=panel.key,
        title=panel.title,
        note=panel.note,
        wide=panel.evaluated,
        steps=SEPARATOR.join(str(bucket.step) for bucket in buckets),
        lines=tuple(lines),
        left_out=len(curves) - len(shown) + max(0, len(labels) - MOST_LINES),
        ticks=tick_texts(scale, panel.unit),
        rules=tuple(scale.y(tick) for tick in scale.ticks),
    )


def _numbers(values: Iterator[float | None]) -> tuple[float, ...]:
    return tuple(value for value in values if value is not None)


def _line(
    name: str, tone: int, curve: Sequence[tuple[float, ...]], xs: Sequence[float], scale: Scale, unit: str
) -> Line:
    means = [fmean(bucket) if bucket else None for bucket in curve]
    points = [None if mean is None else (x, scale.y(mean)) for x, mean in zip(xs, means, strict=True)]
    return Line(
        name=name,
        tone=tone,
        path=polyline(points),
        band=_band(curve, xs, scale),
        texts=SEPARATOR.join("" if mean is None else short(mean, unit) for mean in means),
        last=short(next((mean for mean in reversed(means) if mean is not None), None), unit),
    )


def polyline(points: Sequence[tuple[float, float] | None]) -> str:
    """Return a path through the points with gaps at None; a single point becomes a dot through the line's round cap."""
    parts: list[str] = []
    joined = False
    for place, point in enumerate(points):
        if point is not None:
            parts.append(f"{'L' if joined else 'M'}{point[0]:g} {point[1]:g}")
            if not joined and (place + 1 == len(points) or points[place + 1] is None):
                parts.append("h0")
        joined = point is not None
    return "".join(parts)


def _band(curve: Sequence[tuple[float, ...]], xs: Sequence[float], scale: Scale) -> str:
    known = [(x, bucket) for x, bucket in zip(xs, curve, strict=True) if bucket]
    if all(len(bucket) == 1 for _, bucket in known):
        return ""
    above = [f"{x:g} {scale.y(max(bucket)):g}" for x, bucket in known]
    below = [f"{x:g} {scale.y(min(bucket)):g}" for x, bucket in reversed(known)]
    return "M" + "L".join([*above, *below]) + "Z"


def whisker(point: EvaluationPoint) -> tuple[float, ...]:
    """Return an evaluation's values on the axis: the mean, and one standard error to both sides."""
    if point.reward_mean is None:
        return ()
    error = point.reward_std_error or 0.0
    return (point.reward_mean - error, point.reward_mean, point.reward_mean + error)


def _evaluated(
    label: str,
    tone: int,
    points: Sequence[EvaluationPoint],
    buckets: Sequence[Bucket],
    span: Span,
    scale: Scale,
    unit: str,
) -> Line:
    known = [(span.x(point.step), point.step, whisker(point)) for point in points if point.reward_mean is not None]
    texts, place = [], 0
    for bucket in buckets:  # the newest evaluation at each step
        while place < len(known) and known[place][1] <= bucket.step:
            place += 1
        texts.append(f"{short(known[place - 1][2][1], unit)} (step {known[place - 1][1]})" if place else "")
    return Line(
        name=f"evaluated: {label}",
        tone=tone,
        path=polyline([(x, scale.y(value[1])) for x, _, value in known]),
        band="",
        texts=SEPARATOR.join(texts),
        last=short(known[-1][2][1], unit),
        dots="".join(f"M{x:g} {scale.y(value[1]):g}h0" for x, _, value in known),
        whiskers="".join(f"M{x:g} {scale.y(value[0]):g}V{scale.y(value[2]):g}" for x, _, value in known),
    )
