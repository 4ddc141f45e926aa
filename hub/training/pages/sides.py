"""The page that shows two of a run's rollouts of one example side by side, of the same step or of different ones."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.http import require_safe

from hub.core.errors import Invalid
from hub.core.ids import GivenId
from hub.core.pages import page, show
from hub.core.pagination import whole_number
from hub.evals.comparing.transcript_sides import Side, side_by_side
from hub.evals.reading.example_groups import Square
from hub.training.annotation_targets import target_of_training
from hub.training.example_steps import ExampleSteps, example_over_steps
from hub.training.models import TrainingRollout, TrainingRun
from hub.training.queries import get_rollout, get_training, read_record

COLUMNS = 2
LONGEST = 9  # digits of a number
Position = tuple[int, int]  # step and index


@page
@require_safe
def training_sides(request: HttpRequest, training_id: GivenId) -> HttpResponseBase:
    """Serve `?at=STEP.INDEX&at=STEP.INDEX`."""
    found = get_training(request.user, training_id)
    at = [_position(text) for text in request.GET.getlist("at")]
    if len(at) != COLUMNS:
        raise Invalid("two rollouts are shown side by side", hint="open a rollout and choose another attempt")
    rows = [get_rollout(found, *position) for position in at]
    if len({(row.environment, row.example) for row in rows}) > 1:
        raise Invalid("these rollouts are of different examples", hint="choose two of the same example")
    sides = _sides(found, rows)
    context = side_by_side(sides, whole_number(request, "from"), lambda start: f"{query_of(at)}&from={start}")
    context |= {"section": "training", "training": found, "row": rows[0], "step": rows[0].step}
    context["listed_at"] = target_of_training(found).listed_at
    return show(request, "training/rollout_sides.html", context)


def _position(text: str) -> Position:
    """Read STEP.INDEX. Raises Invalid."""
    parts = text.split(".")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) <= LONGEST for part in parts):
        raise Invalid("`at` is the step and the index of a rollout, as in 3.12", fields={"at": text[:100]})
    return int(parts[0]), int(parts[1])


def query_of(at: Sequence[Position]) -> str:
    """Return the query string that shows these rollouts."""
    return "?" + "&".join(f"at={step}.{index}" for step, index in at)


def _sides(training: TrainingRun, rows: Sequence[TrainingRollout]) -> list[Side]:
    at = [(row.step.step, row.index) for row in rows]
    of = target_of_training(training)
    return [
        Side(
            title=f"Step {step}",
            page=f"{of.listed_at}?step={step}",
            attempt=f"rollout {index}",
            address=f"{of.listed_at}/{step}/{index}",
            record=read_record(row),
            outcome=row.failure_kind or row.outcome,
            squares=_squares(example_over_steps(training, row, step), at, column),
        )
        for column, (row, (step, index)) in enumerate(zip(rows, at, strict=True))
    ]


def _squares(over: ExampleSteps, at: Sequence[Position], column: int) -> tuple[tuple[str, Square], ...]:
    """Return the attempts at the example, each with the address that shows it in this column."""
    return tuple(
        (query_of([*at[:column], (shown.step, one.index), *at[column + 1 :]]), Square(one.index, one.shade, words))
        for shown in over.steps
        for one in shown.attempts
        for words in (f"step {shown.step}, {one.words}",)
    )
