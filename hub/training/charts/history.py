"""Reads the steps from which charts are drawn: at most MOST_READ rows, however long the run is."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db.models import F
from envhub.protocol.training.metrics import EvaluationPoint, StepMetrics

from hub.training.models import Step, TrainingEvaluation, TrainingRun

MOST_READ = 400
MOST_EVALUATIONS = 300
SPARK = 32  # steps in a list's sparkline


def chart_steps(training: TrainingRun, *, newest: int | None = None) -> list[StepMetrics]:
    """Return steps in order, evenly spaced if there are too many to read; `newest` limits them to the last ones."""
    first = max(1, training.step - newest + 1) if newest else 1
    return steps_between(training, first, training.step)


def steps_between(training: TrainingRun, first: int, last: int, *, most: int = MOST_READ) -> list[StepMetrics]:
    """Return the steps from `first` to `last` in order, or `most` evenly spaced ones."""
    rows = Step.objects.filter(training=training).order_by("step")
    if last - first < most:
        rows = rows.filter(step__gte=first, step__lte=last)
    else:
        rows = rows.filter(step__in=spread(first, last, most))
    return [StepMetrics.model_validate(metrics) for metrics in rows.values_list("metrics", flat=True)]


def spread(first: int, last: int, count: int) -> list[int]:
    """Return `count` different, evenly spaced numbers from `first` to `last`, both included."""
    return [first + round(place * (last - first) / (count - 1)) for place in range(count)]


def chart_evaluations(training: TrainingRun, *, first: int = 0, last: int | None = None) -> list[EvaluationPoint]:
    """Return the newest evaluations from step `first` to `last` (None: the newest), in order."""
    rows = TrainingEvaluation.objects.filter(training=training, step__gte=first).order_by("-step", "-label")
    if last is not None:
        rows = rows.filter(step__lte=last)
    found = list(rows.values_list("point", flat=True)[:MOST_EVALUATIONS])
    return [EvaluationPoint.model_validate(point) for point in reversed(found)]


def evaluation_count(training: TrainingRun) -> int:
    """Return how many evaluations are stored; a page that polls for news reads only this."""
    return TrainingEvaluation.objects.filter(training=training).count()


def last_rewards(trainings: Iterable[TrainingRun]) -> dict[UUID, list[float]]:
    """Return the mean rewards of each run's newest steps, in one query."""
    ids = [row.pk for row in trainings if row.step]
    found: dict[UUID, list[float]] = {key: [] for key in ids}
    if not ids:
        return found
    rows = Step.objects.filter(training__in=ids, step__gt=F("training__step") - SPARK).order_by("training_id", "step")
    for key, reward in rows.values_list("training_id", "metrics__reward_mean"):
        if reward is not None:
            found[key].append(float(reward))
    return found
