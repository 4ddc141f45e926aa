"""Draws the curves of several runs in common charts, over steps, time or tokens. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from statistics import fmean

from envhub.protocol.training.metrics import EvaluationPoint, StepMetrics

from hub.training.charts.curves import SEPARATOR, Chart, Line, Span, buckets_of, polyline, whisker
from hub.training.charts.panels import Panel
from hub.training.charts.scales import Scale, log_scale_of, scale_of, short, tick_texts

POINTS = 100  # points per line, and positions that the pointer distinguishes
TONES = 8
MOST_LABELS = 4  # labels of evaluations, each with its own chart


class Axis(StrEnum):
    """The quantity on the x axis."""

    STEP = "step"
    TIME = "time"
    TOKENS = "tokens"


@dataclass(frozen=True)
class Curves:
    """One run: its steps with their positions on the x axis."""

    name: str
    tone: int
    steps: Sequence[StepMetrics]
    places: Sequence[int]
    evaluations: Sequence[EvaluationPoint]

    def place(self, step: int) -> int | None:
        """Return the position of the last step up to this one, or of the first step if this comes before it."""
        if not self.steps:
            return None
        found = bisect_right([one.step for one in self.steps], step)
        return self.places[max(0, found - 1)]


@dataclass(frozen=True)
class Drawn:
    """How the curves are drawn. smooth: the weight of previous values, 0 to 1."""

    span: Span
    smooth: float
    logarithmic: bool

    @property
    def grid(self) -> list[int]:
        """The evenly spaced positions that the pointer distinguishes."""
        width = self.span.last - self.span.first
        count = min(POINTS, width + 1)
        return [self.span.first + round(width * one / max(1, count - 1)) for one in range(count)]


def places_of(steps: Sequence[StepMetrics], axis: Axis) -> list[int]:
    """Return the steps' positions on the x axis: numbers, seconds since the first began, or tokens trained on so far.

    For a run that is too long to read all its steps, each step read stands for the tokens of those skipped before it.
    """
    if axis is Axis.STEP:
        return [one.step for one in steps]
    if axis is Axis.TOKENS:
        before = [0, *(one.step for one in steps)]
        parts = (one.trained_tokens * (one.step - last) for one, last in zip(steps, before, strict=False))
        return list(accumulate(parts))
    return _seconds(steps)


def _seconds(steps: Sequence[StepMetrics]) -> list[int]:
    """Return seconds since the first step began; a step without an end time gets the previous step's position."""
    known = [one for one in steps if one.at is not None]
    if not known or known[0].at is None:
        return [0] * len(steps)
    begun = known[0].at.timestamp() - known[0].seconds.get("step", 0.0)
    found = [0 if one.at is None else max(0, round(one.at.timestamp() - begun)) for one in steps]
    return list(accumulate(found, max))


def _time(seconds: int, digits: int) -> str:
    return f"{seconds / 3600:.{digits}g} h" if seconds >= 5400 else f"{seconds / 60:.{digits}g} min"


WORDS: dict[Axis, Callable[[int, int], str]] = {
    Axis.STEP: lambda step, digits: str(step),
    Axis.TIME: _time,
    Axis.TOKENS: lambda tokens, digits: short(float(tokens), "k", digits),
}


def span_over(runs: Iterable[Curves], axis: Axis, *, zoomed: bool = False) -> Span | None:
    """Return the range from the first to the last position; None without a step. Times and tokens start at 0, or where
    somebody zoomed in."""
    places = [place for run in runs for place in run.places]
    if not places:
        return None
    first = min(places) if zoomed or axis is Axis.STEP else 0
    return Span(first, max(places), WORDS[axis], "step " if axis is Axis.STEP else "")


def overlaid(panel: Panel, runs: Sequence[Curves], drawn: Drawn) -> Chart | None:
    """Draw a panel's first value of each step, for each run. None if no run has any."""
    curves = [_curve(panel, run, drawn) for run in runs]
    known = [value for curve in curves for _, value in curve if value is not None]
    scale = _scale(panel, known, drawn) if known else None
    if scale is None:
        return None
    lines = [_line(run, curve, drawn, scale, panel.unit) for run, curve in zip(runs, curves, strict=True)]
    return _chart(panel, [line for line in lines if line.path], drawn, scale)


def _curve(panel: Panel, run: Curves, drawn: Drawn) -> list[tuple[int, float | None]]:
    place = dict(zip((one.step for one in run.steps), run.places, strict=True))
    found: list[tuple[int, float | None]] = []
    for bucket in buckets_of(run.steps, POINTS) if run.steps else ():
        values = [value for step in bucket.steps for value in panel.lines(step).values() if value is not None]
        found.append((place[bucket.step], fmean(values) if values else None))
    return _smoothed(found, drawn.smooth)


def _smoothed(curve: Sequence[tuple[int, float | None]], weight: float) -> list[tuple[int, float | None]]:
    """Return an exponential moving average without bias towards 0 at the beginning (Kingma & Ba 2015, section 3)."""
    total = share = 0.0
    found: list[tuple[int, float | None]] = []
    for place, value in curve:
        if value is None or not math.isfinite(value):
            found.append((place, None))
            continue
        total = weight * total + (1 - weight) * value
        share = weight * share + (1 - weight)
        found.append((place, total / share))
    return found


def _scale(panel: Panel, values: Sequence[float], drawn: Drawn) -> Scale | None:
    if drawn.logarithmic:
        return log_scale_of(values)
    return scale_of(values, from_zero=panel.from_zero, unit_range=panel.unit_range)


def _line(run: Curves, curve: Sequence[tuple[int, float | None]], drawn: Drawn, scale: Scale, unit: str) -> Line:
    seen = [(place, None if value is None or (scale.logarithmic and value <= 0) else value) for place, value in curve]
    points = [None if value is None else (drawn.span.x(place), scale.y(value)) for place, value in seen]
    return Line(
        name=run.name,
        tone=run.tone,
        path=polyline(points),
        band="",
        texts=_texts(seen, drawn, unit),
        last=short(next((value for _, value in reversed(seen) if value is not None), None), unit),
    )


def _texts(curve: Sequence[tuple[int, float | None]], drawn: Drawn, unit: str) -> str:
    """Return the value at each grid position as text; empty before a run's begin and after its end."""
    places = [place for place, _ in curve]
    texts = []
    for at in drawn.grid:
        found = bisect_right(places, at)
        inside = found > 0 and (found < len(places) or at == places[-1])
        value = curve[found - 1][1] if inside else None
        texts.append("" if value is None else short(value, unit))
    return SEPARATOR.join(texts)


def _chart(panel: Panel, lines: Sequence[Line], drawn: Drawn, scale: Scale) -> Chart | None:
    if not lines:
        return None
    return Chart(
        key=panel.key,
        title=panel.title,
        note=panel.note,
        wide=panel.evaluated,
        steps=SEPARATOR.join(map(str, drawn.grid)),
        lines=tuple(lines),
        left_out=0,
        ticks=tick_texts(scale, panel.unit),
        rules=tuple(scale.y(tick) for tick in scale.ticks),
    )


def evaluated_charts(runs: Sequence[Curves], drawn: Drawn) -> list[Chart]:
    """Draw the evaluations during training: one chart per label, with a line and dots for each run."""
    labels = dict.fromkeys(point.label for run in runs for point in run.evaluations if point.reward_mean is not None)
    charts = (_evaluated(label, runs, drawn) for label in list(labels)[:MOST_LABELS])
    return [chart for chart in charts if chart is not None]


def _evaluated(label: str, runs: Sequence[Curves], drawn: Drawn) -> Chart | None:
    name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in label)[:60]
    panel = Panel(f"eval-{name}", f"Evaluated: {label}", "with one standard error", lambda step: {}, unit_range=True)
    own = {run.tone: [point for point in run.evaluations if point.label == label] for run in runs}
    known = [value for points in own.values() for point in points for value in whisker(point)]
    scale = _scale(panel, known, drawn)
    if scale is None:
        return None
    lines = [_dots(run, own[run.tone], drawn, scale) for run in runs]
    return _chart(panel, [line for line in lines if line.path], drawn, scale)


def _dots(run: Curves, points: Sequence[EvaluationPoint], drawn: Drawn, scale: Scale) -> Line:
    found = []
    for point in points:
        place, value = run.place(point.step), whisker(point)
        if place is not None and value and not (scale.logarithmic and value[0] <= 0):
            found.append((place, value))
    at = [(drawn.span.x(place), value) for place, value in found]
    curve = [(place, value[1]) for place, value in found]
    return Line(
        name=run.name,
        tone=run.tone,
        path=polyline([(x, scale.y(value[1])) for x, value in at]),
        band="",
        texts=_texts(curve, drawn, "") if curve else "",
        last=short(curve[-1][1] if curve else None),
        dots="".join(f"M{x:g} {scale.y(value[1]):g}h0" for x, value in at),
        whiskers="".join(f"M{x:g} {scale.y(value[0]):g}V{scale.y(value[2]):g}" for x, value in at),
    )
