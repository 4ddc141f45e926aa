"""The query parameters that filter the rollouts of a training run; empty form fields are ignored."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest
from pydantic import BaseModel, ConfigDict, Field

from hub.core.errors import Invalid
from hub.core.pagination import whole_number
from hub.evals.annotations import labelled
from hub.evals.rollout_filter import require_outcome
from hub.training.annotation_targets import target_of_training
from hub.training.models import Step, TrainingRollout, TrainingRun
from hub.training.paging import page_after
from hub.training.queries import filter_rollouts, get_step

USED = (("yes", "in the batch"), ("no", "left out"))


class TrainingRolloutFilter(BaseModel):
    """The form above the table, without the step: a saved view applies to every step of every run."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    environment: str = Field(default="", max_length=200)
    outcome: str = Field(default="", max_length=32)
    used: str = Field(default="", max_length=3)
    label: str = Field(default="", max_length=32)

    @property
    def narrows(self) -> bool:
        """Whether the filter may hide rollouts."""
        return any(self.model_dump().values())

    @property
    def text(self) -> str:
        """The filter as a query string, for a form."""
        return urlencode(self.given())

    def query(self, **more: object) -> str:
        """Return the filter as a query string ("?...", or "" if all is empty) with the `more` parameters."""
        text = urlencode(self.given(**more))
        return f"?{text}" if text else ""

    def given(self, **more: object) -> dict[str, object]:
        """Return the filter and the `more` parameters by name, without empty ones."""
        return {name: value for name, value in (self.model_dump() | more).items() if value not in ("", None)}

    def check(self) -> None:
        """Raises Invalid for an unknown outcome or use."""
        require_outcome(self.outcome)
        if self.used and self.used not in dict(USED):
            raise Invalid("used must be yes or no", fields={"used": self.used})

    def select(self, training: TrainingRun, step: Step | None) -> QuerySet[TrainingRollout]:
        """Return the matching rollouts of a step by index, or of all steps by age. Raises Invalid."""
        self.check()
        rows = filter_rollouts(step, of=training, environment=self.environment, outcome=self.outcome)
        if self.used:
            rows = rows.filter(admitted=self.used == "yes")
        if self.label:
            rows = rows.filter(pk__in=labelled(target_of_training(training), self.label))
        return rows.select_related("step").defer("step__metrics").order_by("pk" if step is None else "index")


@dataclass(frozen=True)
class RolloutPage:
    """A page of rollouts: of one step or, if `everywhere`, those with a label in any step."""

    step: Step | None
    everywhere: bool
    rows: list[TrainingRollout]
    next: str | None


def shown_step(training: TrainingRun, request: HttpRequest) -> Step | None:
    """Return the step in the address, else the newest; None if there is none yet. Raises Invalid, NotFound."""
    return get_step(training, whole_number(request, "step"))


def rollout_page(training: TrainingRun, wanted: TrainingRolloutFilter, request: HttpRequest) -> RolloutPage:
    """Return a page for the step in the address, else for the newest; with a label and no step, for all steps.

    Raises Invalid, NotFound.
    """
    number, after = whole_number(request, "step"), whole_number(request, "after")
    if number is None and wanted.label:
        found = wanted.select(training, None).filter(pk__gt=after or 0)
        return RolloutPage(None, True, *page_after(found, request, "after", lambda one: one.pk))
    step = get_step(training, number)
    wanted.check()
    if step is None:
        return RolloutPage(None, False, [], None)
    found = wanted.select(training, step).filter(index__gt=-1 if after is None else after)
    return RolloutPage(step, False, *page_after(found, request, "after", lambda one: one.index, step=step.step))
