"""Labels, notes and saved views over HTTP. Whoever sees an evaluation sees its labels; notes are for its members."""

from __future__ import annotations

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from envhub.protocol.accounts import Scope
from envhub.protocol.annotations import (
    LabelCounts,
    NoteRequest,
    NoteView,
    RolloutLabels,
    SavedView,
    SavedViewRequest,
)
from envhub.protocol.base import Page
from rest_framework.decorators import api_view
from rest_framework.request import Request

from hub.accounts.models import Role
from hub.accounts.permissions import check_read, require_scope
from hub.accounts.queries import require_role
from hub.core.http import answer, answer_page, parse
from hub.core.ids import GivenId
from hub.core.pagination import newest_first
from hub.core.requests.parameters import PAGE, query
from hub.evals.annotations import get_note, get_view, label_counts, labels_of, notes_of, saved_views
from hub.evals.queries import get_evaluation, get_rollout
from hub.evals.rollout_filter import RolloutFilter
from hub.evals.services import add_label, add_note, delete_note, delete_view, edit_note, remove_label, save_view
from hub.evals.wire import note_view, saved_view


@extend_schema(responses=LabelCounts)
@api_view(["GET"])
def labels(request: Request, evaluation_id: GivenId) -> HttpResponse:
    """All labels of an evaluation, each with how many rollouts have it."""
    check_read(request)
    found = get_evaluation(request.user, evaluation_id)
    return answer(LabelCounts(labels=tuple(label_counts(found))))


@extend_schema(methods=["PUT"], request=None, responses=RolloutLabels)
@extend_schema(methods=["DELETE"], request=None, responses={204: None})
@api_view(["PUT", "DELETE"])
def label(request: Request, evaluation_id: GivenId, example: int, rollout: int, label: str) -> HttpResponse:
    """Put a label on a rollout, which answers all that it has, or take it off."""
    user = require_scope(request, Scope.WRITE)
    evaluation = get_evaluation(user, evaluation_id)
    row = get_rollout(evaluation, example, rollout)
    if request.method == "DELETE":
        remove_label(user=user, evaluation=evaluation, rollout=row, name=label)
        return HttpResponse(status=204)
    add_label(user=user, evaluation=evaluation, rollout=row, name=label)
    return answer(RolloutLabels(labels=labels_of([row.pk]).get(row.pk, ())))


@extend_schema(methods=["GET"], parameters=query(*PAGE), responses=Page[NoteView])
@extend_schema(methods=["POST"], request=NoteRequest, responses={201: NoteView})
@api_view(["GET", "POST"])
def notes(request: Request, evaluation_id: GivenId, example: int, rollout: int) -> HttpResponse:
    """The notes on a rollout, newest first; POST adds one."""
    user = require_scope(request, Scope.WRITE if request.method == "POST" else Scope.READ)
    evaluation = get_evaluation(user, evaluation_id)
    row = get_rollout(evaluation, example, rollout)
    if request.method == "POST":
        text = parse(request, NoteRequest).text
        return answer(note_view(add_note(user=user, evaluation=evaluation, rollout=row, text=text), row), status=201)
    require_role(user, evaluation.owner, Role.READER)
    found, following = newest_first(notes_of(row), request)
    return answer_page(found, following, lambda one: note_view(one, row))


@extend_schema(methods=["PATCH"], request=NoteRequest, responses=NoteView)
@extend_schema(methods=["DELETE"], request=None, responses={204: None})
@api_view(["PATCH", "DELETE"])
def note(request: Request, evaluation_id: GivenId, example: int, rollout: int, note_id: GivenId) -> HttpResponse:
    """Change or delete one's own note."""
    user = require_scope(request, Scope.WRITE)
    row = get_rollout(get_evaluation(user, evaluation_id), example, rollout)
    found = get_note(row, note_id)
    if request.method == "DELETE":
        delete_note(user=user, note=found)
        return HttpResponse(status=204)
    return answer(note_view(edit_note(user=user, note=found, text=parse(request, NoteRequest).text), row))


@extend_schema(methods=["GET"], parameters=query(*PAGE), responses=Page[SavedView])
@extend_schema(methods=["POST"], request=SavedViewRequest, responses={201: SavedView})
@api_view(["GET", "POST"])
def views(request: Request, evaluation_id: GivenId) -> HttpResponse:
    """The filters that are kept for evaluations like this one, of its owner on its environment; POST keeps another."""
    if request.method == "POST":
        user = require_scope(request, Scope.WRITE)
        evaluation = get_evaluation(user, evaluation_id)
        body = parse(request, SavedViewRequest)
        wanted = RolloutFilter.model_validate(body.query.model_dump(exclude_defaults=True))
        kept = save_view(user=user, evaluation=evaluation, name=body.name, wanted=wanted)
        return answer(saved_view(kept), status=201)
    check_read(request)
    rows = saved_views(get_evaluation(request.user, evaluation_id)).order_by("-pk")
    return answer_page(*newest_first(rows, request), saved_view)


@extend_schema(request=None, responses={204: None})
@api_view(["DELETE"])
def view(request: Request, evaluation_id: GivenId, view_id: GivenId) -> HttpResponse:
    """Forget a saved view."""
    user = require_scope(request, Scope.WRITE)
    delete_view(user=user, view=get_view(get_evaluation(user, evaluation_id), view_id))
    return HttpResponse(status=204)
