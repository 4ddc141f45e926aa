"""Forms on the pages of training runs: labels and notes on a rollout, and saved filters above the table."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.views.decorators.http import require_POST

from hub.core.http import validate
from hub.core.ids import GivenId
from hub.core.pages import page
from hub.evals.annotation_targets import AnnotationTarget, Place
from hub.evals.reading.annotation_panel import change_label, change_note, forget_view, keep_view, write_note
from hub.training.annotation_targets import place_in_training, target_of_training
from hub.training.queries import get_rollout, get_training
from hub.training.rollout_filter import TrainingRolloutFilter
from hub.training.rollout_places import TOKENS, opened_from, shown_as


def _place(request: HttpRequest, training_id: GivenId, step: int, index: int) -> tuple[AnnotationTarget, Place, str]:
    training = get_training(request.user, training_id)
    row, as_tokens = get_rollout(training, step, index), shown_as(request) == TOKENS
    here = opened_from(request).query(show=TOKENS if as_tokens else "")
    return target_of_training(training), place_in_training(training, row, step), here


@page
@login_required
@require_POST
def training_label(request: HttpRequest, training_id: GivenId, step: int, index: int) -> HttpResponse:
    """Put a label on a rollout, or take it off if `remove` is set."""
    return change_label(request, *_place(request, training_id, step, index))


@page
@login_required
@require_POST
def training_note(request: HttpRequest, training_id: GivenId, step: int, index: int) -> HttpResponse:
    """Add a note to a rollout."""
    return write_note(request, *_place(request, training_id, step, index))


@page
@login_required
@require_POST
def training_note_change(
    request: HttpRequest, training_id: GivenId, step: int, index: int, note_id: GivenId
) -> HttpResponse:
    """Edit the user's own note, or delete it if `delete` is set."""
    return change_note(request, *_place(request, training_id, step, index), note_id)


@page
@login_required
@require_POST
def view_save(request: HttpRequest, training_id: GivenId) -> HttpResponse:
    """Save the filter that the form holds under a name."""
    of = target_of_training(get_training(request.user, training_id))
    wanted = validate(TrainingRolloutFilter, QueryDict(request.POST.get("query", "")).dict())
    wanted.check()
    return keep_view(request, of, wanted.given(), f"{of.listed_at}?{wanted.text}#rollouts")


@page
@login_required
@require_POST
def view_delete(request: HttpRequest, training_id: GivenId, view_id: GivenId) -> HttpResponse:
    """Delete a saved view."""
    return forget_view(request, target_of_training(get_training(request.user, training_id)), view_id)
