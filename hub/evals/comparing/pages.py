"""The page that compares evaluations of one environment, and the page that offers evaluations to compare with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe
from envhub.protocol.evals.command_line import command_like
from envhub.protocol.evals.evaluations import EvaluationView

from hub.core.pages import page, show
from hub.evals.chosen_rollouts import written
from hub.evals.comparing.matrix import LETTERS, MOST, MatrixRow, PairTest, narrowed
from hub.evals.comparing.paired import Comparison, mean_interval
from hub.evals.comparing.sides import Sides, compare_many
from hub.evals.comparing.view import (
    KEPT,
    ORDERS,
    SHOWN,
    ComparisonQuery,
    arrows,
    asked_of,
    settings_that_differ,
    spread,
)
from hub.evals.models import Evaluation, RolloutIndex
from hub.evals.paging import Sort
from hub.evals.queries import get_evaluation, rollouts_together, visible_evaluations
from hub.evals.reading.example_groups import Square, square
from hub.evals.reward_shades import Shades, shades_of
from hub.evals.rollout_filter import RolloutFilter
from hub.evals.wire import evaluation_view, listed_evaluations

OFFERED = 50
SQUARES = 4  # rollouts shown in a cell


@dataclass(frozen=True)
class Side:
    """One evaluation on the page, with the examples that it has scored; `against` is its test against A, None for A."""

    letter: str
    evaluation: Evaluation
    view: EvaluationView
    examples: int
    against: PairTest | None
    rollouts_at: str  # prefix of its rollouts' addresses

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of its own mean, over all its examples."""
        return mean_interval(self.view.summary.reward, self.examples)


@dataclass(frozen=True)
class ShownCell:
    """One evaluation's mean on one example with its first rollouts; `difference` is to A."""

    side: Side
    mean: float | None
    difference: float | None
    squares: tuple[Square, ...]


@dataclass(frozen=True)
class ShownRow:
    """One row of the matrix as the page shows it."""

    row: MatrixRow
    asked: str
    cells: tuple[ShownCell, ...]


@page
@require_safe
def evaluation_compare(request: HttpRequest) -> HttpResponseBase:
    """Serve `?a=ID&b=ID&b=ID`, which compares each B with A.

    Without `b`, offer the environment's other evaluations to choose from; without `a`, go to the list of all
    evaluations. The checkboxes of a list send `?id=ID&id=ID`, newest first: the oldest becomes A.
    """
    ticked = [one for one in request.GET.getlist("id") if one]
    if ticked:
        given = [("a", ticked[-1]), *(("b", one) for one in reversed(ticked[:-1]))]
        return redirect(f"{reverse('evaluation-compare')}?{urlencode(given)}")
    if not request.GET.get("a"):
        if "ticked" in request.GET:
            messages.info(request, f"Select 2 to {MOST} evaluations of one environment, then compare them.")
        return redirect("evaluations")
    asked = asked_of(request.GET)
    return _picking(request, asked) if asked.pick or not asked.b else _comparing(request, asked)


def _picking(request: HttpRequest, asked: ComparisonQuery) -> HttpResponseBase:
    first = get_evaluation(request.user, asked.a)
    others = visible_evaluations(request.user).filter(environment=first.environment_id).exclude(pk=first.pk)
    context = {
        "section": "evaluations",
        "a": first,
        "a_view": evaluation_view(first),
        "ticked": {str(one) for one in asked.b},
        "most": MOST,
        "rows": listed_evaluations(request.user, list(others[:OFFERED])),
    }
    return show(request, "evals/evaluation_compare_pick.html", context)


def _comparing(request: HttpRequest, asked: ComparisonQuery) -> HttpResponseBase:
    compared = compare_many(request.user, [asked.a, *asked.b])
    places = [f"{reverse('evaluation', args=[one.pk])}/rollouts" for one in compared.evaluations]
    context = {"section": "evaluations", "address": request.path} | comparison_figures(asked, compared, places)
    return show(request, "evals/evaluation_compare.html", context)


def comparison_figures(asked: ComparisonQuery, compared: Sides, places: Sequence[str]) -> dict[str, Any]:
    """Return the context of a comparison page; `places` are the prefixes of each evaluation's rollout addresses."""
    context = _figures(asked, compared, places)
    if compared.two is not None:
        context |= _figures_of_two(compared.two, context["sides"])
    return context


def _figures(asked: ComparisonQuery, compared: Sides, places: Sequence[str]) -> dict[str, Any]:
    sides = sides_of(compared, places)
    first = sides[0]
    rows = narrowed(compared.found.rows, asked.only, asked.sort)
    start = (asked.page - 1) * SHOWN
    query = f"?{asked.sides}&sort={asked.sort.value}&only={asked.only.value}"
    shades = shades_of([side.view.summary for side in sides])
    shown = rows[start : start + SHOWN]
    inside = RolloutFilter(among=written(row.example for row in shown), sort=Sort.EXAMPLE.value)
    return {
        "asked": asked,
        "sides": sides,
        "a": first.evaluation,
        "a_view": first.view,
        "matrix": compared.found,
        "found": compared.two,
        "broken": sum(row.broken > 0 for row in compared.found.rows),
        "fixed": sum(row.fixed > 0 for row in compared.found.rows),
        "is_going_on": any(not side.evaluation.is_final for side in sides),
        "settings": settings_that_differ(_configurations(sides)),
        "orders": ORDERS,
        "kept": KEPT,
        "shades": shades,
        "rows": _shown(shown, sides, shades),
        "list_query": inside.query(),
        "count": len(rows),
        "next": f"{query}&page={asked.page + 1}" if start + SHOWN < len(rows) else None,
    }


def sides_of(compared: Sides, places: Sequence[str]) -> list[Side]:
    """Return the evaluations with their letters."""
    against = {test.b: test for test in compared.found.tests if test.a == 0}
    return [
        Side(
            LETTERS[place],
            row,
            evaluation_view(row, inside=row.owner_id in compared.inside),
            compared.examples[place],
            against.get(place),
            places[place],
        )
        for place, row in enumerate(compared.evaluations)
    ]


def _configurations(sides: Sequence[Side]) -> list[Mapping[str, Any]]:
    return [{"version": side.view.version or "–"} | side.view.config for side in sides]


def _figures_of_two(found: Comparison, sides: Sequence[Side]) -> dict[str, Any]:
    test = sides[1].against
    return {
        "b": sides[1].evaluation,
        "b_view": sides[1].view,
        "figures": arrows([*([found.reward] if found.reward else []), *found.metrics]),
        "histogram": spread(found),
        "same": len(found.pairs) - found.better - found.worse,
        "verdict": _verdict(found),
        "p": test.p if test else None,
        "again": command_like(sides[0].view, sides[1].view.model),
    }


def _verdict(found: Comparison) -> str:
    if found.reward is None:
        return ""
    if not found.reward.is_clear:
        return "no clear difference"
    return "B is better" if found.reward.mean > 0 else "A is better"


def _shown(rows: Sequence[MatrixRow], sides: Sequence[Side], shades: Shades) -> list[ShownRow]:
    found: defaultdict[tuple[object, int], list[RolloutIndex]] = defaultdict(list)
    evaluations = [side.evaluation for side in sides]
    for rollout in rollouts_together(evaluations, [row.example for row in rows], most=SQUARES):
        found[rollout.evaluation_id, rollout.example].append(rollout)
    return [_shown_row(row, sides, shades, found) for row in rows]


def _shown_row(
    row: MatrixRow,
    sides: Sequence[Side],
    shades: Shades,
    found: Mapping[tuple[object, int], list[RolloutIndex]],
) -> ShownRow:
    cells, asked = [], ""
    for place, (side, mean) in enumerate(zip(sides, row.cells, strict=True)):
        rollouts = found.get((side.evaluation.pk, row.example), [])
        difference = row.difference(place) if place else None
        asked = asked or next((one.asked for one in rollouts if one.asked), "")
        squares = tuple(square(one, shades) for one in rollouts) if mean is not None else ()
        cells.append(ShownCell(side, mean, difference, squares))
    return ShownRow(row, asked, tuple(cells))
