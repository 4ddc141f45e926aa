"""The reader of a training run's rollouts: the transcript as for evaluations, or the tokens as training saw them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_safe
from envhub.packaging.conversation import pretty
from envhub.protocol.evals.replays import OF_TRAINING
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.training.metrics import StepMetrics
from envhub.protocol.training.runs import TOKENS_KEY, TrainingRolloutRow

from hub.core.ids import GivenId
from hub.core.pages import page, show
from hub.core.pagination import whole_number
from hub.evals.reading.annotation_panel import panel_of
from hub.evals.reading.example_groups import Square
from hub.evals.reading.opened_records import open_record
from hub.evals.reading.reader import ShowPage
from hub.evals.reading.record_reader import RecordReader, picture_of, task_of
from hub.evals.replays import calls_by_turn, can_be_replayed, replays_of
from hub.evals.reward_shades import Shades
from hub.training.annotation_targets import place_in_training, target_of_training
from hub.training.example_groups import square
from hub.training.example_steps import example_over_steps, with_own
from hub.training.models import TrainingRollout, TrainingRun
from hub.training.pages.rollouts import staleness
from hub.training.pages.sides import query_of
from hub.training.queries import get_rollout, get_training, read_record, trained_in
from hub.training.ratio_bounds import RatioBounds
from hub.training.rollout_places import TOKENS, TRANSCRIPT, OpenedFrom, opened_from, place_of, shades_of_step, shown_as
from hub.training.token_view import COLOURINGS, LEGENDS, Scene, token_page, trained_tokens
from hub.training.wire import rollout_row

MOST_SIBLINGS, MOST_GROUP = 64, 1000  # rollouts of a group that are shown, and that are counted


@page
@require_safe
def training_rollout(request: HttpRequest, training_id: GivenId, step: int, index: int) -> HttpResponseBase:
    """Show one rollout (its transcript or its tokens, its scores and its group), or a part of the page."""
    found = get_training(request.user, training_id)
    context = {"section": "training", "listed_at": target_of_training(found).listed_at}
    return read_training_rollout(request, found, get_rollout(found, step, index), context, show)


def read_training_rollout(
    request: HttpRequest, found: TrainingRun, row: TrainingRollout, context: dict[str, Any], show_page: ShowPage
) -> HttpResponseBase:
    """Show a rollout, or a part of it.

    `show_page` renders the whole page in its layout. In the context, `listed_at` is the prefix of the rollouts'
    addresses. If `shared` is set, nothing depends on who reads.
    """
    opened = opened_from(request)
    reader = RecordReader.of(request, open_record(row, read_record), opened.given(show=shown_as(request)))
    context = context | reader.context() | {"training": found, "step": row.step, "opened": opened}
    context["pictures_at"] = f"{context['listed_at']}/{row.step.step}/{row.index}/pictures"
    if not context.get("shared"):
        context["replay_at"] = _replay_at(request, found, row, reader.record)
    return reader.answer(
        context, lambda: show_page(request, "training/rollout_detail.html", _whole(reader, row, opened, context))
    )


def _replay_at(request: HttpRequest, found: TrainingRun, row: TrainingRollout, record: RolloutRecord) -> str:
    """Return the address where a replay is started, without the number of a call; "" if the user cannot start one."""
    pinned = trained_in(found, row)
    if not request.user.is_authenticated or pinned is None or not can_be_replayed(record):
        return ""
    environment = pinned.version.environment
    address = reverse("evaluate", args=[environment.owner.slug, environment.name])
    return f"{address}?replay={OF_TRAINING}{found.pk}/{row.step.step}/{row.index}/"


def _whole(reader: RecordReader, row: TrainingRollout, opened: OpenedFrom, context: dict[str, Any]) -> dict[str, Any]:
    request, record, found, step = reader.request, reader.record, context["training"], row.step.step
    metrics = StepMetrics.model_validate(row.step.metrics)
    as_tokens, shades = shown_as(request) == TOKENS, shades_of_step(metrics)
    if as_tokens:
        context |= _tokens(reader, row, RatioBounds.of(found.config["trainer"]), metrics, opened)
    else:
        context |= reader.transcript() | reader.calls(opened=0)
    context |= _figures(record, row, found)
    context |= {
        "as_tokens": as_tokens,
        "ways": [
            (text, opened.query(show=name), (name == TOKENS) == as_tokens)
            for name, text in ((TRANSCRIPT, "Transcript"), (TOKENS, "Tokens"))
        ],
        "list_at": opened.query(step="" if opened.everywhere else step),
        "place": place_of(found, row, opened, context["listed_at"], shades),
    }
    if context.get("shared"):
        return context
    context |= panel_of(request.user, target_of_training(found), place_in_training(found, row, step))
    return context | {
        "replays": replays_of(request.user, found.pk, step=step, rollout=row.index),
        "beside": _beside(found, row, context["group"], shades),
    }


def _beside(
    found: TrainingRun, row: TrainingRollout, group: Sequence[TrainingRolloutRow], shades: Shades
) -> list[tuple[str, Square]]:
    """Return the other rollouts of the group, each with the address that shows both side by side."""
    address, step = reverse("training-sides", args=[found.pk]), row.step.step
    return [
        (address + query_of([(step, row.index), (step, one.index)]), square(one, shades))
        for one in group
        if one.index != row.index
    ]


def _figures(record: RolloutRecord, row: TrainingRollout, found: TrainingRun) -> dict[str, Any]:
    """Return the context of `training/_scores.html`, which does not depend on the viewer."""
    step, index = row.step.step, row.index
    group = list(TrainingRollout.objects.filter(step=row.step, group=row.group).order_by("index")[:MOST_GROUP])
    siblings = with_own(group, MOST_SIBLINGS, lambda one: one.index == index)
    extras = {name: value for name, value in record.extras.items() if name != TOKENS_KEY}
    return {
        "row": rollout_row(row, step),
        "behind": staleness(row, step),
        "trained": trained_tokens(record),
        "group": [rollout_row(one, step) for one in siblings],
        "more_in_group": len(group) - len(siblings),
        "over_steps": example_over_steps(found, row, step),
        "task": task_of(record),
        "extras": pretty(extras) if extras else "",
    }


def _tokens(
    reader: RecordReader, row: TrainingRollout, bounds: RatioBounds, metrics: StepMetrics, opened: OpenedFrom
) -> dict[str, Any]:
    """Return the context of `training/_tokens.html`."""
    scene = Scene(row.step.step, _largest(metrics), left_out=row.dropped.replace("_", " "), bounds=bounds)
    tokens = token_page(reader.record, scene, page=whole_number(reader.request, "page") or 1)
    colour = reader.request.GET.get("colour", "")
    return {
        "tokens": tokens,
        "colouring": colour if colour in tokens.available else next(iter(tokens.available), ""),
        "colourings": [
            (name, name in tokens.available, LEGENDS[name], bounds.text if name == "ratio" else "")
            for name in COLOURINGS
        ],
        "by_turn": calls_by_turn(reader.record),
        "pages_at": opened.query(show=TOKENS, colour=colour if colour in COLOURINGS else ""),
    }


def _largest(metrics: StepMetrics) -> float:
    one = metrics.advantages
    return max(abs(one.low), abs(one.high)) if one else 0.0


@page
@require_safe
def training_picture(
    request: HttpRequest, training_id: GivenId, step: int, index: int, number: int, picture: int
) -> HttpResponseBase:
    """Return a picture in a turn."""
    row = get_rollout(get_training(request.user, training_id), step, index)
    return picture_of(
        request, open_record(row, read_record), number, picture, {"Cache-Control": "private, max-age=3600"}
    )
