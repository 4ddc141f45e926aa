"""What people write on the pages of evaluations: labels and notes in the reader, filters kept above the table.

Each form works without JavaScript; htmx replaces the reader's section (`evals/_said.html`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST
from envhub.protocol.annotations import NoteRequest, SavedViewRequest

from hub.accounts.models import User
from hub.core.errors import Conflict, HubError, Invalid
from hub.core.http import validate
from hub.core.ids import GivenId
from hub.core.pages import page
from hub.evals.annotations import get_note, get_view
from hub.evals.models import Evaluation, RolloutIndex
from hub.evals.queries import get_evaluation, get_rollout
from hub.evals.reading.reader import filter_of, said_of
from hub.evals.rollout_filter import RolloutFilter
from hub.evals.services import add_label, add_note, delete_note, delete_view, edit_note, remove_label, save_view

Change = Callable[[User, Evaluation, RolloutIndex], object]


@page
@login_required
@require_POST
def rollout_label(request: HttpRequest, evaluation_id: GivenId, example: int, rollout: int) -> HttpResponse:
    """Put a label on a rollout, or with `remove` take it off."""
    name = "-".join(request.POST.get("label", "").lower().split())
    change = remove_label if request.POST.get("remove") else add_label
    return _changed(
        request,
        get_evaluation(request.user, evaluation_id),
        (example, rollout),
        lambda user, evaluation, row: change(user=user, evaluation=evaluation, rollout=row, name=name),
    )


@page
@login_required
@require_POST
def rollout_note(request: HttpRequest, evaluation_id: GivenId, example: int, rollout: int) -> HttpResponse:
    """Add a note to a rollout."""
    return _changed(
        request,
        get_evaluation(request.user, evaluation_id),
        (example, rollout),
        lambda user, evaluation, row: add_note(user=user, evaluation=evaluation, rollout=row, text=_text(request)),
    )


@page
@login_required
@require_POST
def rollout_note_change(
    request: HttpRequest, evaluation_id: GivenId, example: int, rollout: int, note_id: GivenId
) -> HttpResponse:
    """Change one's own note, or with `delete` delete it."""

    def change(user: User, evaluation: Evaluation, row: RolloutIndex) -> None:
        note = get_note(row, note_id)
        if request.POST.get("delete"):
            delete_note(user=user, note=note)
        else:
            edit_note(user=user, note=note, text=_text(request))

    return _changed(request, get_evaluation(request.user, evaluation_id), (example, rollout), change)


def _text(request: HttpRequest) -> str:
    """With the line ends that a form changes as they were. Raises Invalid."""
    text = request.POST.get("text", "").replace("\r\n", "\n").strip()
    return validate(NoteRequest, {"text": text}).text


def _changed(request: HttpRequest, evaluation: Evaluation, place: tuple[int, int], change: Change) -> HttpResponse:
    """Do it, then show the section again; a mistake is told there."""
    user, row = cast("User", request.user), get_rollout(evaluation, *place)
    error: HubError | None = None
    try:
        change(user, evaluation, row)
    except (Invalid, Conflict) as found:
        if not request.htmx:  # type: ignore[attr-defined]  # set by django_htmx's middleware
            raise
        error = found
    here = filter_of(request).query()
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect(f"{reverse('rollout', args=[evaluation.pk, *place])}{here}#said")
    context = {"evaluation": evaluation, "row": row, "here": here, "error": error}
    context |= said_of(user, evaluation, row)
    return render(request, "evals/_said.html", context, status=422 if error else 200)


@page
@login_required
@require_POST
def view_save(request: HttpRequest, evaluation_id: GivenId) -> HttpResponse:
    """Keep the filter that the form holds under a name."""
    user = cast("User", request.user)
    evaluation = get_evaluation(user, evaluation_id)
    wanted = validate(RolloutFilter, QueryDict(request.POST.get("query", "")).dict())
    name = validate(SavedViewRequest, {"name": request.POST.get("name", "").strip(), "query": {}}).name
    save_view(user=user, evaluation=evaluation, name=name, wanted=wanted)
    messages.success(request, f"Saved the view {name}.")
    return redirect(f"{reverse('evaluation', args=[evaluation.pk])}{wanted.query()}#rollouts")


@page
@login_required
@require_POST
def view_delete(request: HttpRequest, evaluation_id: GivenId, view_id: GivenId) -> HttpResponse:
    """Forget a saved view."""
    user = cast("User", request.user)
    evaluation = get_evaluation(user, evaluation_id)
    view = get_view(evaluation, view_id)
    delete_view(user=user, view=view)
    messages.info(request, f"Deleted the view {view.name}.")
    return redirect(f"{reverse('evaluation', args=[evaluation.pk])}#rollouts")
