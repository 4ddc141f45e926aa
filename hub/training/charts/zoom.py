"""The part of the x axis that charts show, as their address has it (`?from=10&to=25`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envhub.protocol.training.metrics import StepMetrics

from hub.training.charts.history import MOST_READ, steps_between
from hub.training.charts.overlay import Axis, places_of
from hub.training.models import TrainingRun


@dataclass(frozen=True)
class Zoom:
    """Positions on the x axis, both included; None is an open end. False if both ends are open."""

    first: int | None = None
    last: int | None = None

    def __bool__(self) -> bool:
        return self.first is not None or self.last is not None

    def __contains__(self, place: int) -> bool:
        return (self.first is None or place >= self.first) and (self.last is None or place <= self.last)

    @property
    def query(self) -> str:
        """The query parameters of an address."""
        ends = (("from", self.first), ("to", self.last))
        return "&".join(f"{name}={value}" for name, value in ends if value is not None)

    @property
    def text(self) -> str:
        """For people: "10 to 25"."""
        if self.last is None:
            return f"{self.first} and later"
        return f"{self.first or 0} to {self.last}"


def zoomed_steps(training: TrainingRun, zoom: Zoom) -> list[StepMetrics]:
    """Return the steps from `zoom.first` to `zoom.last`, or evenly spaced ones if there are too many to read."""
    first = max(1, zoom.first or 1)
    last = training.step if zoom.last is None else min(training.step, zoom.last)
    return steps_between(training, first, last) if first <= last else []


def steps_on(training: TrainingRun, axis: Axis, zoom: Zoom) -> tuple[list[StepMetrics], list[int]]:
    """Return the steps in `zoom` and their positions on the axis.

    A run too long to read whole is read twice: to find the steps that lie in the zoom, and then these closely. Both
    readings together give the positions, as times and sums of tokens start at the first step.
    """
    if axis is Axis.STEP:
        steps = zoomed_steps(training, zoom)
        return steps, places_of(steps, axis)
    steps = steps_between(training, 1, training.step) if training.step else []
    places = places_of(steps, axis)
    inside = [number for number, place in enumerate(places) if place in zoom]
    if zoom and training.step > MOST_READ and steps:
        steps = _closer(training, steps, inside or _around(places, zoom))
        places = places_of(steps, axis)
    kept = [(step, place) for step, place in zip(steps, places, strict=True) if place in zoom]
    return [step for step, _ in kept], [place for _, place in kept]


def _around(places: Sequence[int], zoom: Zoom) -> list[int]:
    """Return the last position before a zoom that lies between two of them."""
    before = [number for number, place in enumerate(places) if zoom.first is None or place < zoom.first]
    return before[-1:] or [0]


def _closer(training: TrainingRun, steps: Sequence[StepMetrics], inside: Sequence[int]) -> list[StepMetrics]:
    first, last = steps[max(0, inside[0] - 1)], steps[min(len(steps) - 1, inside[-1] + 1)]
    close = steps_between(training, first.step, last.step)
    by_step = {one.step: one for one in (*steps, *close)}
    return [by_step[number] for number in sorted(by_step)]
