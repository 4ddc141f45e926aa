"""The page that shows the transcripts of two to eight attempts at one example side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe
from pydantic import BaseModel, ConfigDict, Field

from hub.core.errors import Invalid, NotFound
from hub.core.http import validate
from hub.core.pages import page, show
from hub.evals.comparing.matrix import FEWEST, MOST
from hub.evals.comparing.sides import check_environment
from hub.evals.comparing.transcript_sides import Side, side_by_side
from hub.evals.comparing.view import asked_of
from hub.evals.models import Evaluation
from hub.evals.queries import get_evaluations, read_record, rollouts_together
from hub.evals.reading.example_groups import MOST_SQUARES, square
from hub.evals.reward_shades import shades_of
from hub.evals.wire import evaluation_view

Attempt = Annotated[int, Field(ge=0, lt=2**15)]


class Place(BaseModel):
    """Query parameters: the example, the attempt in each column (`at`, else `rollout`), and the first turn to show."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    example: int = Field(ge=0, lt=2**31)
    rollout: Attempt = 0
    at: tuple[Attempt, ...] = Field(default=(), max_length=MOST)
    start: int | None = Field(default=None, ge=0, lt=2**31, alias="from")

    def attempt(self, column: int) -> int:
        """Return the attempt that a column (from 0) shows."""
        return self.at[column] if column < len(self.at) else self.rollout


@page
@require_safe
def compare_example(request: HttpRequest) -> HttpResponseBase:
    """Serve `?a=ID&b=ID&example=7&rollout=0`, or `&at=2&at=0` for a different attempt in each column.

    `a` and `b` may be the same evaluation.
    """
    asked, place = asked_of(request.GET), place_of(request)
    ids = [asked.a, *asked.b]
    if not FEWEST <= len(ids) <= MOST:
        raise Invalid(f"{FEWEST} to {MOST} attempts can be shown side by side", hint="choose that many")
    evaluations = get_evaluations(request.user, ids)
    check_environment(evaluations)
    pages = [reverse("evaluation", args=[one.pk]) for one in evaluations]
    named = f"{asked.sides}&example={place.example}"
    context = example_figures(evaluations, place, named, [f"{one}/rollouts" for one in pages], pages)
    context |= {"section": "evaluations", "query": asked.sides, "environment": evaluations[0].environment}
    return show(request, "evals/example_compare.html", context)


def place_of(request: HttpRequest, **fixed: int) -> Place:
    """Return what the address asks for; `fixed` overrides the example. Raises Invalid."""
    return validate(Place, request.GET.dict() | {"at": [one for one in request.GET.getlist("at") if one]} | fixed)


def example_figures(
    evaluations: Sequence[Evaluation],
    place: Place,
    named: str,
    rollouts_at: Sequence[str],
    pages: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the context of `evals/_example_compare.html`, which does not depend on the viewer.

    named: the part of the page's query that stays the same for all attempts; rollouts_at: for each evaluation, the
    prefix of its rollouts' addresses; pages: the page of each evaluation, None if the viewer may not see them. Raises
    NotFound.
    """
    shades = shades_of([evaluation_view(one).summary for one in evaluations])
    attempts = [place.attempt(column) for column in range(len(evaluations))]
    most = max(MOST_SQUARES, max(attempts) + 1)
    rows = list(rollouts_together(evaluations, [place.example], most=most).select_related("segment"))
    if not rows:
        raise NotFound(f"none of these evaluations has a rollout of example {place.example}")
    chosen = {(row.evaluation_id, row.rollout): row for row in rows}
    sides = []
    for column, (evaluation, attempt) in enumerate(zip(evaluations, attempts, strict=True)):
        row, own = chosen.get((evaluation.pk, attempt)), [one for one in rows if one.evaluation_id == evaluation.pk]
        others = [[*attempts[:column], one.rollout, *attempts[column + 1 :]] for one in own]
        squares = [
            (_query(named, other), square(one, shades))
            for other, one in zip(others, own, strict=True)
            if one.rollout < MOST_SQUARES
        ]
        address = f"{rollouts_at[column]}/{place.example}/{attempt}"
        sides.append(
            Side(
                title=evaluation.name or evaluation.model_name,
                page=pages[column] if pages else "",
                attempt=f"rollout {attempt}",
                address=address,
                record=read_record(row) if row else None,
                outcome=row.failure_kind or row.outcome if row else "",
                squares=tuple(squares),
            )
        )
    known = sorted({row.rollout for row in rows if row.rollout < MOST_SQUARES})
    return side_by_side(sides, place.start, lambda start: _query(named, attempts, start=start)) | {
        "example": place.example,
        "same": attempts[0] if len(set(attempts)) == 1 else None,
        "target": next((row.target for row in rows if row.target), ""),
        "attempts": [(number, _query(named, [number] * len(evaluations))) for number in known],
    }


def _query(named: str, attempts: Sequence[int], *, start: int | None = None) -> str:
    """Return the query string that shows these attempts."""
    found = [("at", one) for one in attempts]
    query = urlencode(found if start is None else [*found, ("from", start)])
    return f"?{named}&{query}" if named else f"?{query}"
