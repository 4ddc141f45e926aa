"""The page that shows a replay beside its original, a stored rollout of an evaluation or of a training run."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_safe

from hub.core.errors import Invalid, NotFound
from hub.core.ids import GivenId
from hub.core.pages import page, show
from hub.core.pagination import whole_number
from hub.evals.comparing.transcript_sides import Side, side_by_side
from hub.evals.models import Evaluation
from hub.evals.queries import get_evaluation, get_rollout, read_record, rollouts_of_examples
from hub.evals.reading.example_groups import MOST_SQUARES, Square, square
from hub.evals.replays import Origin, original_of
from hub.evals.reward_shades import shades_of
from hub.evals.wire import evaluation_summary


@page
@require_safe
def replay_beside_original(
    request: HttpRequest, evaluation_id: GivenId, example: int, rollout: int
) -> HttpResponseBase:
    """Show the stored rollout as A and, as B, this rollout of the evaluation that replays it."""
    evaluation = get_evaluation(request.user, evaluation_id)
    original = original_of(request.user, evaluation)
    if original is None:
        raise Invalid("this evaluation is not a replay", hint='start one with "Replay from here" on a rollout\'s page')
    if original.origin is None:
        raise NotFound("the replayed rollout has been deleted, or you cannot see it")
    row = get_rollout(evaluation, example, rollout)
    address = reverse("rollout", args=[evaluation.pk, example, rollout])
    replayed = Side(
        title=evaluation.name or evaluation.model_name,
        page=reverse("evaluation", args=[evaluation.pk]),
        attempt=f"rollout {rollout}",
        address=address,
        record=read_record(row),
        outcome=row.failure_kind or row.outcome,
        squares=_squares(evaluation, example),
    )
    sides = [_stored(original.origin), replayed]
    context = side_by_side(sides, whole_number(request, "from"), lambda start: f"?from={start}")
    context |= {"section": "evaluations", "evaluation": evaluation, "row": row}
    return show(request, "evals/replay_compare.html", context | {"of": original.origin, "calls": original.replay.calls})


def _stored(origin: Origin) -> Side:
    record = origin.record()
    return Side(
        title=origin.whole_title,
        page=origin.whole_address,
        attempt=origin.title,
        address=origin.address,
        record=record,
        outcome=record.failure.kind if record.failure else record.outcome,
    )


def _squares(evaluation: Evaluation, example: int) -> tuple[tuple[str, Square], ...]:
    """Return the replay's attempts, each with the address of its page beside the original."""
    rows = rollouts_of_examples(evaluation, [example])[:MOST_SQUARES]
    shades = shades_of([evaluation_summary(evaluation)])
    return tuple(
        (reverse("rollout-original", args=[evaluation.pk, example, one.rollout]), square(one, shades)) for one in rows
    )
