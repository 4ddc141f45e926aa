"""One example, two to eight attempts at it: their transcripts side by side, from the first turn that differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe
from envhub.protocol.evals.rollouts import RolloutRecord
from pydantic import BaseModel, ConfigDict, Field

from hub.core.errors import Invalid, NotFound
from hub.core.http import validate
from hub.core.pages import page, show
from hub.evals.comparing.matrix import FEWEST, LETTERS, MOST
from hub.evals.comparing.sides import check_environment
from hub.evals.comparing.view import asked_of
from hub.evals.models import Evaluation, RolloutIndex
from hub.evals.queries import get_evaluations, read_record, rollouts_together
from hub.evals.reading.example_groups import MOST_SQUARES, Square, square
from hub.evals.reading.transcript import SHOWN, Transcript, Turn, Window, transcript
from hub.evals.reward_shades import Shades, shades_of
from hub.evals.wire import evaluation_view

KEPT = 2  # turns before the first difference that are shown


Attempt = Annotated[int, Field(ge=0, lt=2**15)]


class Place(BaseModel):
    """Which example, which attempt at it in each column (`at`, else `rollout`), and the first turn that is shown."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    example: int = Field(ge=0, lt=2**31)
    rollout: Attempt = 0
    at: tuple[Attempt, ...] = Field(default=(), max_length=MOST)
    start: int | None = Field(default=None, ge=0, lt=2**31, alias="from")

    def attempt(self, column: int) -> int:
        """Of a column, from 0."""
        return self.at[column] if column < len(self.at) else self.rollout


@dataclass(frozen=True)
class Column:
    """One attempt; `record` is None where its evaluation has none of that number."""

    letter: str
    evaluation: Evaluation
    rollout: int
    address: str  # of the attempt's own page
    squares: tuple[tuple[str, Square], ...]  # each with the address that shows it here
    row: RolloutIndex | None
    record: RolloutRecord | None
    window: Window | None
    more: int  # turns after those of the window
    differs_at: int | None  # the number of its first turn that is not A's
    as_a: bool  # every turn is A's, and there are as many


@page
@require_safe
def compare_example(request: HttpRequest) -> HttpResponseBase:
    """`?a=ID&b=ID&example=7&rollout=0`, or `&at=2&at=0` for an attempt of its own in each column, also of one
    evaluation (`a` and `b` the same)."""
    asked, place = asked_of(request.GET), place_of(request)
    ids = [asked.a, *asked.b]
    if not FEWEST <= len(ids) <= MOST:
        raise Invalid(f"{FEWEST} to {MOST} attempts are shown side by side", hint="choose as many")
    evaluations = get_evaluations(request.user, ids)
    check_environment(evaluations)
    pages = [reverse("evaluation", args=[one.pk]) for one in evaluations]
    named = f"{asked.sides}&example={place.example}"
    context = example_figures(evaluations, place, named, [f"{one}/rollouts" for one in pages])
    context |= {"section": "evaluations", "query": asked.sides, "environment": evaluations[0].environment}
    return show(request, "evals/example_compare.html", context | {"pages": dict(zip(LETTERS, pages, strict=False))})


def place_of(request: HttpRequest, **fixed: int) -> Place:
    """What the address asks for; of an example that it names otherwise, `fixed`. Raises Invalid."""
    return validate(Place, request.GET.dict() | {"at": [one for one in request.GET.getlist("at") if one]} | fixed)


def example_figures(
    evaluations: Sequence[Evaluation], place: Place, named: str, rollouts_at: Sequence[str]
) -> dict[str, Any]:
    """What `evals/_example_compare.html` shows; who asks counts for nothing.

    named: what the page's query says whatever the attempts; rollouts_at: what addresses of each one's rollouts begin
    with. Raises NotFound.
    """
    shades = shades_of([evaluation_view(one).summary for one in evaluations])
    attempts = [place.attempt(column) for column in range(len(evaluations))]
    most = max(MOST_SQUARES, max(attempts) + 1)
    rows = list(rollouts_together(evaluations, [place.example], most=most).select_related("segment"))
    if not rows:
        raise NotFound(f"none of these evaluations has a rollout of example {place.example}")
    sides = _Sides(named, place, evaluations, attempts, rows, shades, rollouts_at)
    known = sorted({row.rollout for row in rows if row.rollout < MOST_SQUARES})
    return {
        "columns": sides.columns(),
        "alike": sides.start,
        "from_start": sides.address(attempts, start=0),
        "place": place,
        "same": len(set(attempts)) == 1,
        "target": next((row.target for row in rows if row.target), ""),
        "attempts": [(number, sides.address([number] * len(evaluations))) for number in known],
        "shown": SHOWN,
        "cut": f":{SHOWN}",
    }


class _Sides:
    """The columns, once all transcripts are read."""

    def __init__(
        self,
        named: str,
        place: Place,
        evaluations: Sequence[Evaluation],
        attempts: Sequence[int],
        rows: Sequence[RolloutIndex],
        shades: Shades,
        rollouts_at: Sequence[str],
    ) -> None:
        self._named, self._place, self._shades, self._rollouts_at = named, place, shades, rollouts_at
        self._evaluations, self._attempts, self._rows = evaluations, attempts, rows
        chosen = {(row.evaluation_id, row.rollout): row for row in rows}
        self._chosen = [chosen.get((one.pk, attempt)) for one, attempt in zip(evaluations, attempts, strict=True)]
        self._records = [None if row is None else read_record(row) for row in self._chosen]
        self._whole = [transcript(record) if record else Transcript([], []) for record in self._records]
        first = self._whole[0].turns
        self._differ = [None, *(first_difference(first, one.turns) for one in self._whole[1:])]
        common = min((one for one in self._differ if one is not None), default=0)
        self.start = place.start if place.start is not None else max(0, common - KEPT)

    def columns(self) -> list[Column]:
        """A first."""
        return [self._column(number) for number in range(len(self._evaluations))]

    def address(self, attempts: Sequence[int], *, start: int | None = None) -> str:
        """The query that shows these attempts."""
        found = [("at", one) for one in attempts]
        query = urlencode(found if start is None else [*found, ("from", start)])
        return f"?{self._named}&{query}" if self._named else f"?{query}"

    def _column(self, number: int) -> Column:
        evaluation, whole, place = self._evaluations[number], self._whole[number], self._differ[number]
        window = whole.window(self.start) if self._records[number] else None
        return Column(
            letter=LETTERS[number],
            evaluation=evaluation,
            rollout=self._attempts[number],
            address=f"{self._rollouts_at[number]}/{self._place.example}/{self._attempts[number]}",
            squares=tuple(self._squares(number)),
            row=self._chosen[number],
            record=self._records[number],
            window=window,
            more=len(whole.turns) - window.stop if window else 0,
            as_a=place is None,
            differs_at=whole.turns[place].number if place is not None and place < len(whole.turns) else None,
        )

    def _squares(self, number: int) -> list[tuple[str, Square]]:
        own = [row for row in self._rows if row.evaluation_id == self._evaluations[number].pk]
        found = [square(row, self._shades) for row in own if row.rollout < MOST_SQUARES]
        before, after = self._attempts[:number], self._attempts[number + 1 :]
        return [(self.address([*before, one.rollout, *after]), one) for one in found]


def first_difference(one: Sequence[Turn], other: Sequence[Turn]) -> int | None:
    """The place of the first turn in which two transcripts differ; None: they are the same."""
    pairs = zip(one, other, strict=False)
    found = next((place for place, (a, b) in enumerate(pairs) if _said(a) != _said(b)), min(len(one), len(other)))
    return found if found < max(len(one), len(other)) else None


def _said(turn: Turn) -> tuple[object, ...]:
    """What is compared of a turn: not the ids of its tool calls, which are random."""
    calls = [
        (folded.call.name, folded.call.arguments, folded.result.message.text if folded.result else None)
        for folded in turn.calls
    ]
    message = turn.message
    return message.kind, message.text, message.reasoning, calls, message.pictures
