"""The query parameters that filter and sort a list of rollouts; empty form fields are ignored."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from django.db.models import QuerySet
from envhub.protocol.evals.rollouts import Outcome
from envhub.protocol.runs import FailureKind
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from hub.core.errors import Invalid
from hub.evals.chosen_rollouts import chosen
from hub.evals.clusters.membership import members
from hub.evals.models import Evaluation, RolloutIndex
from hub.evals.paging import Sort
from hub.evals.queries import filter_rollouts

_empty_is_none = BeforeValidator(lambda value: value or None)
_Number = Annotated[Annotated[float, Field(allow_inf_nan=False)] | None, _empty_is_none]
_Index = Annotated[Annotated[int, Field(ge=0, lt=2**31)] | None, _empty_is_none]

EXAMPLES, MIXED, ODD = VIEWS = ("examples", "mixed", "odd")  # ways of showing rollouts other than as one list
OUTCOMES = (Outcome.OK.value, Outcome.TRUNCATED.value, Outcome.FAILED.value, *(kind.value for kind in FailureKind))
SORTS = (
    (Sort.NEWEST.value, "newest"),
    (Sort.REWARD_DESC.value, "highest reward"),
    (Sort.REWARD.value, "lowest reward"),
    (Sort.EXAMPLE.value, "example"),
)


def require_outcome(text: str) -> None:
    """Raises Invalid unless a filter's outcome is empty or one of OUTCOMES."""
    if text and text not in OUTCOMES:
        raise Invalid(f"outcome is one of {', '.join(OUTCOMES)}", fields={"outcome": text[:100]})


class RolloutFilter(BaseModel):
    """The filter form of the evaluation page, and what else narrows the list that a rollout is opened from.

    among: chosen examples and rollouts (hub.evals.chosen_rollouts); cluster: rollouts that failed or answered alike
    (hub.evals.clusters.membership); show: the view of the list, for the way back.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    outcome: str = ""
    among: str = Field(default="", max_length=1500)
    cluster: str = Field(default="", max_length=40)
    show: Annotated[str, BeforeValidator(lambda value: value if value in VIEWS else "")] = ""
    label: str = ""
    min_reward: _Number = None
    max_reward: _Number = None
    example: _Index = None
    sort: str = Sort.NEWEST.value
    cursor: str = ""

    @property
    def narrows(self) -> bool:
        """Whether the filter may hide rollouts."""
        return bool(self.outcome or self.label or self.is_chosen) or any(
            value is not None for value in (self.min_reward, self.max_reward, self.example)
        )

    @property
    def is_chosen(self) -> bool:
        """Whether the list depends on rollouts of one evaluation, so that it is of no use as a saved view."""
        return bool(self.among or self.cluster)

    def query(self, **more: str) -> str:
        """Return the filter as a query string ("?..."), with the `more` parameters that are not empty."""
        return f"?{urlencode(self.given(**more))}"

    @property
    def text(self) -> str:
        """The query string without the question mark, for a form."""
        return self.query()[1:]

    def given(self, **more: str) -> dict[str, object]:
        """Return the filter and the `more` parameters by name, without empty ones."""
        fields = self.model_dump(exclude={"cursor"}) | more
        return {name: value for name, value in fields.items() if value not in ("", None)}

    def check(self) -> None:
        """Raises Invalid for an unknown outcome or order."""
        require_outcome(self.outcome)
        if self.sort not in set(Sort):
            raise Invalid(f"sort is one of {', '.join(Sort)}", fields={"sort": self.sort[:100]})

    def rows(self, evaluation: Evaluation) -> QuerySet[RolloutIndex]:
        """Return the rollouts that pass the filter. Raises Invalid for an unknown outcome or a malformed `among`."""
        rows = filter_rollouts(
            evaluation,
            outcome=self.outcome,
            min_reward=self.min_reward,
            max_reward=self.max_reward,
            example=self.example,
            label=self.label,
        )
        if self.among:
            rows = rows.filter(chosen(self.among))
        return rows.filter(pk__in=members(evaluation, self.cluster)) if self.cluster else rows
