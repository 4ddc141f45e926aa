"""The place of a training rollout in the list that it was opened from: one step or, with `steps=all`, all with a label.

The address of a rollout repeats the filter of its list, so that Previous and Next stay in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q
from django.http import HttpRequest
from envhub.protocol.evals.rollouts import Outcome
from envhub.protocol.training.metrics import StepMetrics

from hub.core.http import validate
from hub.evals.reward_shades import Shades
from hub.training.models import TrainingRollout, TrainingRun
from hub.training.rollout_filter import TrainingRolloutFilter

BEFORE, AFTER = 6, 18  # rollouts shown around the open one
ALL_STEPS = "all"


@dataclass(frozen=True)
class OpenedFrom:
    """A list of rollouts, as the address of one of them names it."""

    wanted: TrainingRolloutFilter
    everywhere: bool = False

    def query(self, **more: object) -> str:
        """Return the query string that keeps the list, with the `more` parameters."""
        return self.wanted.query(**self._steps(), **more)

    def given(self, **more: object) -> dict[str, object]:
        """Return the same parameters by name."""
        return self.wanted.given(**self._steps(), **more)

    def _steps(self) -> dict[str, str]:
        return {"steps": ALL_STEPS} if self.everywhere else {}


def opened_from(request: HttpRequest) -> OpenedFrom:
    """Return the list that a rollout's address names. Raises Invalid."""
    wanted = validate(TrainingRolloutFilter, request.GET.dict())
    wanted.check()
    return OpenedFrom(wanted, everywhere=bool(wanted.label) and request.GET.get("steps") == ALL_STEPS)


def shades_of_step(metrics: StepMetrics | None) -> Shades:
    """Return the scale for the rewards of a step; it begins at 0, unless there are negative rewards."""
    rewards = metrics.rewards if metrics else None
    return Shades(min(0.0, rewards.low), max(0.0, rewards.high)) if rewards else Shades(0.0, 1.0)


@dataclass(frozen=True)
class Neighbours:
    """The open rollout with those around it in the list, even if the filter excludes it."""

    rows: Sequence[TrainingRollout]
    before: TrainingRollout | None
    after: TrainingRollout | None
    failed: TrainingRollout | None  # the next of the step that failed or scored 0 or less, also outside the list


def neighbours_of(training: TrainingRun, row: TrainingRollout, opened: OpenedFrom) -> Neighbours:
    """Return the rollouts around `row`; its step must be loaded."""
    order = "pk" if opened.everywhere else "index"
    rows = opened.wanted.select(training, None if opened.everywhere else row.step)
    before = list(rows.filter(**{f"{order}__lt": getattr(row, order)}).order_by(f"-{order}")[:BEFORE])[::-1]
    after = list(rows.filter(**{f"{order}__gt": getattr(row, order)})[:AFTER])
    later = TrainingRollout.objects.filter(step=row.step, index__gt=row.index).select_related("step")
    failed = later.filter(Q(outcome=Outcome.FAILED.value) | Q(reward__lte=0)).defer("step__metrics")
    return Neighbours(
        rows=[*before, row, *after],
        before=before[-1] if before else None,
        after=after[0] if after else None,
        failed=failed.order_by("index").first(),
    )
