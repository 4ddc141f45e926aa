"""The reader of an evaluation's rollouts: the position in a filtered list, the transcript, and the model calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_safe
from envhub.packaging.conversation import pretty
from envhub.protocol.evals.rollouts import Outcome

from hub.core.http import validate
from hub.core.ids import GivenId
from hub.core.pages import page, show
from hub.evals.annotation_targets import place_in, target_of
from hub.evals.annotations import labels_of
from hub.evals.models import Evaluation, RolloutIndex
from hub.evals.paging import Sort, cursor_of, first_rows, position, rows_before
from hub.evals.prices import cost_of
from hub.evals.queries import get_evaluation, get_rollout, read_record, rollouts_of_examples
from hub.evals.reading.annotation_panel import panel_of
from hub.evals.reading.example_groups import MOST_SQUARES, Square, square
from hub.evals.reading.opened_records import open_record
from hub.evals.reading.record_reader import ListedRollout, Place, RecordReader, picture_of, task_of
from hub.evals.replays import can_be_replayed, original_of, replayed_part, replays_of
from hub.evals.reward_shades import Shades, shades_of
from hub.evals.rollout_filter import RolloutFilter
from hub.evals.wire import evaluation_summary

BEFORE, AFTER = 6, 18  # rollouts shown around the open one
ShowPage = Callable[[HttpRequest, str, dict[str, Any]], HttpResponse]


@page
@require_safe
def rollout_detail(request: HttpRequest, evaluation_id: GivenId, example: int, rollout: int) -> HttpResponseBase:
    """Show one rollout (its transcript, scores and model calls), or a part of the page."""
    found = get_evaluation(request.user, evaluation_id)
    address = reverse("evaluation", args=[found.pk])
    context: dict[str, Any] = {"section": "evaluations", "address": address, "rollouts_at": f"{address}/rollouts"}
    context |= {"evaluation": found, "row": get_rollout(found, example, rollout)}
    return read_rollout(request, context, show)


def read_rollout(request: HttpRequest, context: dict[str, Any], show_page: ShowPage) -> HttpResponseBase:
    """Show the rollout in `context["row"]` of `context["evaluation"]`, or a part of it.

    `show_page` renders the whole page in its layout. In the context, `address` is the page of the evaluation ("" if
    this reader has none) and `rollouts_at` the prefix of its rollouts' addresses. If `shared` is set, notes are left
    out, and nothing depends on who reads.
    """
    evaluation, row = context["evaluation"], context["row"]
    listed = filter_of(request)
    reader = RecordReader.of(request, open_record(row, read_record), listed.given())
    context, record = context | reader.context(), reader.record
    context["cost"] = cost_of(evaluation.prices, record.usage, record.judge_usage)
    context["pictures_at"] = f"{context['rollouts_at']}/{row.example}/{row.rollout}/pictures"
    if not context.get("shared") and request.user.is_authenticated and can_be_replayed(record):
        environment = evaluation.environment
        address = reverse("evaluate", args=[environment.owner.slug, environment.name])
        context["replay_at"] = f"{address}?replay={evaluation.pk}/{row.example}/{row.rollout}/"
    return reader.answer(
        context, lambda: show_page(request, "evals/rollout_detail.html", _whole(request, reader, listed, context))
    )


def _whole(
    request: HttpRequest, reader: RecordReader, listed: RolloutFilter, context: dict[str, Any]
) -> dict[str, Any]:
    record, row, evaluation = reader.record, context["row"], context["evaluation"]
    scores = [(name, value, record.weights.get(name)) for name, value in record.metrics.items()]
    shades = shades_of([evaluation_summary(evaluation)])
    in_list = bool(context["address"])
    context |= (
        reader.transcript()
        | reader.calls()
        | {
            "place": place_of(evaluation, row, listed, context["rollouts_at"], shades) if in_list else Place(),
            "replayed": replayed_part(record),
            "scores": sorted(scores, key=lambda item: (item[2] is None, -(item[2] or 0.0), item[0])),
            "task": task_of(record),
            "extras": pretty(record.extras) if record.extras else "",
        }
    )
    if context.get("shared"):
        return context | {"labels": labels_of([row.pk]).get(row.pk, ())}
    context |= panel_of(request.user, target_of(evaluation), place_in(evaluation, row))
    return context | {
        "replays": replays_of(request.user, evaluation.pk, example=row.example, rollout=row.rollout),
        "original": original_of(request.user, evaluation),
        "beside": beside(evaluation, row, shades),
    }


def beside(evaluation: Evaluation, row: RolloutIndex, shades: Shades) -> list[tuple[str, Square]]:
    """Return the other attempts at the example, each with the address that shows both side by side."""
    others = rollouts_of_examples(evaluation, [row.example]).exclude(pk=row.pk)[:MOST_SQUARES]
    query = f"?a={evaluation.pk}&b={evaluation.pk}&example={row.example}&at={row.rollout}"
    address = reverse("evaluation-compare-example") + query
    return [(f"{address}&at={one.rollout}", square(one, shades)) for one in others]


def filter_of(request: HttpRequest) -> RolloutFilter:
    """Return the list that the reader came from, by default sorted by example. Raises Invalid."""
    listed = validate(RolloutFilter, {"sort": Sort.EXAMPLE.value, **request.GET.dict()})
    listed.check()
    return listed


def place_of(
    evaluation: Evaluation, row: RolloutIndex, listed: RolloutFilter, rollouts_at: str, shades: Shades
) -> Place:
    """Return the position of `row` in the list, with neighbours even if the filter excludes it. Raises Invalid."""
    rows, sort = listed.rows(evaluation), Sort(listed.sort)
    found = [*rows_before(rows, sort, row, BEFORE), row, *first_rows(rows, sort, cursor_of(row, sort), AFTER)]
    here, failed = found.index(row), _next_failed(rows, sort, row)
    shown = [_listed(one, rollouts_at, shades, is_open=one.pk == row.pk) for one in found]
    return Place(
        rows=shown,
        before=shown[here - 1] if here else None,
        after=shown[here + 1] if here + 1 < len(shown) else None,
        failed=_listed(failed, rollouts_at, shades) if failed else None,
    )


def _listed(row: RolloutIndex, rollouts_at: str, shades: Shades, *, is_open: bool = False) -> ListedRollout:
    return ListedRollout(
        address=f"{rollouts_at}/{row.example}/{row.rollout}",
        name=f"{row.example} · {row.rollout}",
        words=f"Example {row.example}, rollout {row.rollout}",
        reward=row.reward,
        shade=shades.shade(row.reward),
        failure=row.failure_kind or row.outcome,
        asked=row.asked,
        is_open=is_open,
    )


def _next_failed(rows: QuerySet[RolloutIndex], sort: Sort, row: RolloutIndex) -> RolloutIndex | None:
    """Return the next rollout of a list that failed or scored 0 or less."""
    kinds = (rows.filter(outcome=Outcome.FAILED.value), rows.filter(reward__lte=0))  # each has an index of its own
    found = [one for kind in kinds for one in first_rows(kind, sort, cursor_of(row, sort), 1)]
    return min(found, key=lambda one: position(one, sort), default=None)


@page
@require_safe
def rollout_picture(
    request: HttpRequest, evaluation_id: GivenId, example: int, rollout: int, number: int, index: int
) -> HttpResponseBase:
    """Return a picture in a turn."""
    found = get_evaluation(request.user, evaluation_id)
    headers = {"Cache-Control": "private, max-age=3600"}
    opened = open_record(get_rollout(found, example, rollout), read_record)
    return picture_of(request, opened, number, index, headers)
