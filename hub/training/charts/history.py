"""The steps that charts are drawn from: however long the run, at most MOST_READ rows are read for them."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db.models import F
from envhub.protocol.training.metrics import EvaluationPoint, StepMetrics

from hub.training.models import Step, TrainingEvaluation, TrainingRun

MOST_READ = 400
MOST_EVALUATIONS = 300
SPARK = 32  # steps of a list's sparkline


def chart_steps(training: TrainingRun, *, newest: int | None = None) -> list[StepMetrics]:
    """Steps in order: all of them, or as many at equal distances as may be read; `newest` looks at the last ones."""
    first = max(1, training.step - newest + 1) if newest else 1
    return steps_between(training, first, training.step)


def steps_between(training: TrainingRun, first: int, last: int, *, most: int = MOST_READ) -> list[StepMetrics]:
    """Steps from `first` to `last` in order, or `most` of them at equal distances."""
    rows = Step.objects.filter(training=training).order_by("step")
    if last - first < most:
        rows = rows.filter(step__gte=first, step__lte=last)
    else:
        rows = rows.filter(step__in=spread(first, last, most))
    return [StepMetrics.model_validate(metrics) for metrics in rows.values_list("metrics", flat=True)]


def spread(first: int, last: int, count: int) -> list[int]:
    """`count` different numbers from `first` to `last`, both included, at equal distances."""
    return [first + round(place * (last - first) / (count - 1)) for place in range(count)]


def chart_evaluations(training: TrainingRun, *, first: int = 0) -> list[EvaluationPoint]:
    """The newest evaluations from step `first` on, in order."""
    rows = TrainingEvaluation.objects.filter(training=training, step__gte=first).order_by("-step", "-label")
    found = list(rows.values_list("point", flat=True)[:MOST_EVALUATIONS])
    return [EvaluationPoint.model_validate(point) for point in reversed(found)]


def evaluation_count(training: TrainingRun) -> int:
    """How many are stored: a page that waits for news asks for this alone."""
    return TrainingEvaluation.objects.filter(training=training).count()


def last_rewards(trainings: Iterable[TrainingRun]) -> dict[UUID, list[float]]:
    """The mean rewards of each run's newest steps, in one query."""
    ids = [row.pk for row in trainings if row.step]
    found: dict[UUID, list[float]] = {key: [] for key in ids}
    if not ids:
        return found
    rows = Step.objects.filter(training__in=ids, step__gt=F("training__step") - SPARK).order_by("training_id", "step")
    for key, reward in rows.values_list("training_id", "metrics__reward_mean"):
        if reward is not None:
            found[key].append(float(reward))
    return found
