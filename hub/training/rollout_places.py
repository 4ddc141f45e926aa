"""The place of a training rollout in the list that it was opened from: one step or, with `steps=all`, all with a label.

The address of a rollout repeats the filter of its list, so that Previous and Next stay in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Q
from django.http import HttpRequest
from envhub.protocol.evals.rollouts import Outcome
from envhub.protocol.training.metrics import StepMetrics

from hub.core.http import validate
from hub.evals.reading.record_reader import ListedRollout, Place
from hub.evals.reward_shades import Shades
from hub.training.models import TrainingRollout, TrainingRun
from hub.training.rollout_filter import TrainingRolloutFilter

BEFORE, AFTER = 6, 18  # rollouts shown around the open one
ALL_STEPS = "all"
TRANSCRIPT, TOKENS = "transcript", "tokens"  # how a rollout is shown


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


def shown_as(request: HttpRequest) -> str:
    """Return whether the address asks for the tokens of a rollout or, by default, for its transcript."""
    return TOKENS if request.GET.get("show") == TOKENS else TRANSCRIPT


def shades_of_step(metrics: StepMetrics | None) -> Shades:
    """Return the scale for the rewards of a step; it begins at 0, unless there are negative rewards."""
    rewards = metrics.rewards if metrics else None
    return Shades(min(0.0, rewards.low), max(0.0, rewards.high)) if rewards else Shades(0.0, 1.0)


def shades_of(rewards: Iterable[float | None]) -> Shades:
    """Return the scale for rewards of several steps: from 0 to 1, and beyond for rewards that are."""
    known = [reward for reward in rewards if reward is not None]
    return Shades(min((0.0, *known)), max((1.0, *known)))


def place_of(training: TrainingRun, row: TrainingRollout, opened: OpenedFrom, listed_at: str, shades: Shades) -> Place:
    """Return the position of `row` in its list, with neighbours even if the filter excludes it.

    listed_at: the prefix of the rollouts' addresses. The row's step must be loaded.
    """
    order = "pk" if opened.everywhere else "index"
    rows = opened.wanted.select(training, None if opened.everywhere else row.step)
    before = list(rows.filter(**{f"{order}__lt": getattr(row, order)}).order_by(f"-{order}")[:BEFORE])[::-1]
    after = list(rows.filter(**{f"{order}__gt": getattr(row, order)})[:AFTER])
    failed = _next_failed(row)

    def listed(one: TrainingRollout) -> ListedRollout:
        step = one.step.step
        return ListedRollout(
            address=f"{listed_at}/{step}/{one.index}",
            name=f"{step} · {one.index}" if opened.everywhere else str(one.index),
            words=f"Step {step}, rollout {one.index}",
            reward=one.reward,
            shade=shades.shade(one.reward),
            failure=one.failure_kind or one.outcome,
            asked=one.asked,
            is_open=one.pk == row.pk,
        )

    return Place(
        rows=[listed(one) for one in (*before, row, *after)],
        before=listed(before[-1]) if before else None,
        after=listed(after[0]) if after else None,
        failed=listed(failed) if failed else None,
    )


def _next_failed(row: TrainingRollout) -> TrainingRollout | None:
    """Return the next rollout of the step that failed or scored 0 or less."""
    later = TrainingRollout.objects.filter(step=row.step, index__gt=row.index).order_by("index")
    found = later.filter(Q(outcome=Outcome.FAILED.value) | Q(reward__lte=0))
    return found.select_related("step").defer("step__metrics").first()
