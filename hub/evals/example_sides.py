"""One example in up to eight evaluations: their transcripts side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.http import require_safe
from envhub.protocol.rollouts import RolloutRecord
from pydantic import BaseModel, ConfigDict, Field

from hub.core.errors import NotFound
from hub.core.http import validate
from hub.core.pages import page, show
from hub.evals.comparing import get_compared
from hub.evals.comparison_view import asked_of
from hub.evals.example_groups import MOST_SQUARES, Square, square
from hub.evals.matrix import LETTERS
from hub.evals.models import Evaluation, RolloutIndex
from hub.evals.queries import read_record, rollouts_together
from hub.evals.reward_shades import Shades, shades_of
from hub.evals.transcript import SHOWN, Window, transcript
from hub.evals.wire import evaluation_view


class Place(BaseModel):
    """Which example, and which attempt at it in each evaluation."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    example: int = Field(ge=0, lt=2**31)
    rollout: int = Field(default=0, ge=0, lt=2**15)


@dataclass(frozen=True)
class Column:
    """One evaluation's attempt; `record` is None where it has none of that number."""

    letter: str
    evaluation: Evaluation
    squares: tuple[Square, ...]
    row: RolloutIndex | None
    record: RolloutRecord | None
    window: Window | None
    more: int  # turns beside those of the window


@page
@require_safe
def compare_example(request: HttpRequest) -> HttpResponseBase:
    """`?a=ID&b=ID&example=7&rollout=0`."""
    asked, place = asked_of(request.GET), validate(Place, request.GET.dict())
    evaluations = get_compared(request.user, [asked.a, *asked.b])
    shades = shades_of([evaluation_view(one).summary for one in evaluations])
    most = max(MOST_SQUARES, place.rollout + 1)
    rows = list(rollouts_together(evaluations, [place.example], most=most).select_related("segment"))
    if not rows:
        raise NotFound(f"none of these evaluations has a rollout of example {place.example}")
    columns = [
        _column(LETTERS[number], one, [row for row in rows if row.evaluation_id == one.pk], place.rollout, shades)
        for number, one in enumerate(evaluations)
    ]
    context: dict[str, Any] = {
        "section": "evaluations",
        "columns": columns,
        "place": place,
        "query": asked.sides,
        "environment": evaluations[0].environment,
        "asked_text": next((row.asked for row in rows if row.asked), ""),
        "target": next((row.target for row in rows if row.target), ""),
        "attempts": sorted({row.rollout for row in rows if row.rollout < MOST_SQUARES}),
        "shown": SHOWN,
        "cut": f":{SHOWN}",
    }
    return show(request, "evals/example_compare.html", context)


def _column(letter: str, evaluation: Evaluation, rows: Sequence[RolloutIndex], rollout: int, shades: Shades) -> Column:
    squares = tuple(square(row, shades) for row in rows if row.rollout < MOST_SQUARES)
    row = next((row for row in rows if row.rollout == rollout), None)
    if row is None:
        return Column(letter, evaluation, squares, None, None, None, 0)
    record = read_record(row)
    whole = transcript(record)
    window = whole.window(0)
    return Column(letter, evaluation, squares, row, record, window, len(whole.turns) - len(window.turns))
