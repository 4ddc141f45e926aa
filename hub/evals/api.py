"""API of evaluations: /api/v1/evaluations."""

from __future__ import annotations

import math
from functools import partial

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from envhub.protocol.accounts.users import Scope
from envhub.protocol.base import Page
from envhub.protocol.evals.clusters import RolloutClusters
from envhub.protocol.evals.evaluations import (
    EvaluationConfig,
    EvaluationPush,
    EvaluationView,
    RolloutRow,
    SegmentBlob,
    SegmentReply,
    SegmentRequest,
)
from envhub.protocol.evals.replays import StoredCalls
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.evals.shards import ShardOrders, ShardReport, ShardViews
from envhub.protocol.registry.packages import VisibilityPatch
from rest_framework.decorators import api_view
from rest_framework.request import Request

from hub.accounts.models import Owner, Role, User
from hub.accounts.permissions import check_read, require_scope
from hub.accounts.queries import Caller, get_owner, has_role, require_role
from hub.core import clock
from hub.core.errors import Conflict, Invalid, NotFound
from hub.core.http import answer, answer_page, parse, validate
from hub.core.ids import GivenId, whole_id
from hub.core.pagination import newest_first
from hub.core.requests.parameters import PAGE, choice, query
from hub.evals.clusters.wire import clusters_view
from hub.evals.exports import ExportFormat, export_response
from hub.evals.models import Evaluation
from hub.evals.paging import Sort, rollout_page
from hub.evals.queries import (
    get_evaluation,
    get_rollout,
    list_evaluations,
    read_record,
    segments_of,
    shards_of,
)
from hub.evals.replays import stored_calls
from hub.evals.rollout_filter import RolloutFilter
from hub.evals.services import (
    add_segment,
    cancel_evaluation,
    create_evaluation,
    delete_evaluation,
    finalize_push,
    push_evaluation,
    report_shard,
    resume_evaluation,
    share_evaluation,
)
from hub.evals.services.creating import stored_config
from hub.evals.wire import evaluation_view, evaluation_views, rollout_rows, segment_blob, shard_view
from hub.runs.authentication import RunGrant, require_live_run, require_run
from hub.runs.models import Run


@extend_schema(
    methods=["GET"], parameters=query("environment", "model", "owner", *PAGE), responses=Page[EvaluationView]
)
@extend_schema(methods=["POST"], parameters=query("owner"), request=EvaluationConfig, responses={201: EvaluationView})
@api_view(["GET", "POST"])
def evaluations(request: Request) -> HttpResponse:
    """List evaluations, or start one.

    Returns the evaluations that the caller may see, newest first; `environment`, `model` and `owner` filter them. POST
    starts an evaluation for `owner`.
    """
    if request.method == "POST":
        user = require_scope(request, Scope.WRITE)
        config = parse(request, EvaluationConfig)
        created = create_evaluation(user=user, owner=_acting_owner(request, user), config=config)
        return answer(_view(user, created), status=201)
    check_read(request)
    narrowed = {key: request.GET.get(key, "") for key in ("environment", "model", "owner")}
    rows, following = newest_first(list_evaluations(request.user, **narrowed), request)
    return answer(Page[EvaluationView](items=tuple(evaluation_views(request.user, rows)), next=following))


@extend_schema(methods=["GET"], responses=EvaluationView)
@extend_schema(methods=["PATCH"], request=VisibilityPatch, responses=EvaluationView)
@extend_schema(methods=["DELETE"], responses={204: None})
@api_view(["GET", "PATCH", "DELETE"])
def evaluation(request: Request, evaluation_id: GivenId) -> HttpResponse:
    """Return, change or delete an evaluation. The response includes its summary. PATCH changes who may see it."""
    if request.method == "GET":
        return answer(_view(request.user, _readable(request, evaluation_id)))
    user = require_scope(request, Scope.WRITE)
    found = get_evaluation(user, evaluation_id)
    if request.method == "DELETE":
        delete_evaluation(user=user, evaluation=found)
        return HttpResponse(status=204)
    share_evaluation(user=user, evaluation=found, visibility=parse(request, VisibilityPatch).visibility)
    return answer(_view(user, found))


@extend_schema(parameters=query("owner"), request=EvaluationPush, responses=EvaluationView)
@api_view(["POST"])
def push(request: Request) -> HttpResponse:
    """Start an upload of results produced elsewhere.

    Pushing the same fingerprint again returns the existing evaluation.
    """
    user = require_scope(request, Scope.WRITE)
    body = parse(request, EvaluationPush)
    return answer(_view(user, push_evaluation(user=user, owner=_acting_owner(request, user), request=body)))


@extend_schema(request=None, responses=EvaluationView)
@api_view(["POST"])
def finalize(request: Request, evaluation_id: GivenId) -> HttpResponse:
    """Mark the upload of an evaluation's results as complete."""
    user = require_scope(request, Scope.WRITE)
    return answer(_view(user, finalize_push(user=user, evaluation=get_evaluation(user, evaluation_id))))


@extend_schema(request=None, responses=EvaluationView)
@api_view(["POST"])
def resume(request: Request, evaluation_id: GivenId) -> HttpResponse:
    """Queue the missing rollouts of an evaluation."""
    user = require_scope(request, Scope.WRITE)
    return answer(_view(user, resume_evaluation(user=user, evaluation=get_evaluation(user, evaluation_id))))


@extend_schema(request=None, responses=EvaluationView)
@api_view(["POST"])
def cancel(request: Request, evaluation_id: GivenId) -> HttpResponse:
    """Ask an evaluation to stop. Stored rollouts are kept."""
    user = require_scope(request, Scope.WRITE)
    found = get_evaluation(user, evaluation_id)
    cancel_evaluation(user=user, evaluation=found)
    return answer(_view(user, found))


@extend_schema(methods=["GET"], parameters=query(*PAGE), responses=Page[SegmentBlob])
@extend_schema(methods=["POST"], request=SegmentRequest, responses=SegmentReply)
@api_view(["GET", "POST"])
def segments(request: Request, evaluation_id: GivenId) -> HttpResponse:
    """List stored segments with presigned URLs, or register one.

    POST requires the run token or, for pushed results, an API token of a member of the owner.
    """
    if request.method == "POST":
        body = parse(request, SegmentRequest)
        store = _store_hosted if isinstance(request.auth, RunGrant) else _store_pushed
        return answer(SegmentReply(stored=store(request, evaluation_id, body)))
    rows, following = newest_first(segments_of(_readable(request, evaluation_id)), request)
    return answer_page(rows, following, segment_blob)


@extend_schema(methods=["GET"], responses=ShardViews)
@extend_schema(methods=["POST"], request=ShardReport, responses=ShardOrders)
@api_view(["GET", "POST"])
def shards(request: Request, evaluation_id: GivenId) -> HttpResponse:
    """List the runs that work on an evaluation or wait to, its own run first.

    Each run reports with POST which examples it holds (run token).
    """
    if request.method == "POST":
        body = parse(request, ShardReport)
        found, run = _worked_on(request, evaluation_id)
        guard = partial(require_run, request, run.pk)
        return answer(report_shard(run=run, evaluation=found, report=body, now=clock.now(), guard=guard))
    user = require_scope(request, Scope.READ)
    mine = get_evaluation(user, evaluation_id)
    require_role(user, mine.owner, Role.MEMBER)
    return answer(ShardViews(shards=tuple(shard_view(run, mine) for run in shards_of(mine))))


@extend_schema(responses=StoredCalls)
@api_view(["GET"])
def replayed(request: Request, evaluation_id: GivenId) -> HttpResponse:
    """Return the stored model calls that an evaluation's rollouts begin with.

    Requires the token of a run that works on the evaluation.
    """
    found, _ = _worked_on(request, evaluation_id)
    return answer(stored_calls(stored_config(found)))


@extend_schema(
    parameters=[
        *query("outcome", "label", "min_reward", "max_reward", "example", "cluster", "among"),
        choice("sort", Sort, Sort.NEWEST),
        *query("cursor", "limit"),
    ],
    responses=Page[RolloutRow],
)
@api_view(["GET"])
def rollouts(request: Request, evaluation_id: GivenId) -> HttpResponse:
    """List the rollouts of an evaluation in short form.

    Filter by `outcome`, `label` (or "any"), `min_reward`, `max_reward`, `example`, `cluster` (rollouts that failed or
    answered alike) and `among` (chosen examples and rollouts). `sort` is newest, reward, -reward or example.
    """
    found = _readable(request, evaluation_id)
    rows = validate(RolloutFilter, request.query_params.dict()).rows(found)
    found_rows, following = rollout_page(rows, request._request)
    return answer(Page[RolloutRow](items=tuple(rollout_rows(found_rows, found.prices)), next=following))


@extend_schema(responses=RolloutClusters)
@api_view(["GET"])
def clusters(request: Request, evaluation_id: GivenId) -> HttpResponse:
    """List rollouts that failed with the same message, or gave the same wrong answer.

    Returns at most ten clusters of failures and ten of answers, the largest first. The filter `cluster` of the list of
    rollouts takes their names.
    """
    return answer(clusters_view(_readable(request, evaluation_id)))


@extend_schema(responses=RolloutRecord)
@api_view(["GET"])
def rollout(request: Request, evaluation_id: GivenId, example: int, rollout: int) -> HttpResponse:
    """Return a complete rollout."""
    return answer(read_record(get_rollout(_readable(request, evaluation_id), example, rollout)))


@extend_schema(
    parameters=[
        choice("format", ExportFormat, ExportFormat.PARQUET),
        *query("min_reward", "max_reward", "label", "labels"),
    ],
    responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
)
@api_view(["GET"])
def export(request: Request, evaluation_id: GivenId) -> StreamingHttpResponse:
    """Export the rollouts of an evaluation.

    `format` is parquet or jsonl; `min_reward`, `max_reward` and `label` filter the rollouts. With `labels=true` the
    export includes their labels.
    """
    plain: HttpRequest = request._request
    return export_response(
        plain,
        _readable(request, evaluation_id),
        format=request.GET.get("format", "parquet"),
        min_reward=_number(request, "min_reward"),
        max_reward=_number(request, "max_reward"),
        label=request.GET.get("label", ""),
        with_labels=request.GET.get("labels") == "true",
    )


def _store_hosted(request: Request, evaluation_id: GivenId, body: SegmentRequest) -> int:
    found, run = _worked_on(request, evaluation_id)
    guard = partial(require_run, request, run.pk)
    return add_segment(evaluation=found, request=body, trusted=True, guard=guard, late=run.parent_id is not None)


def _worked_on(request: Request, evaluation_id: GivenId) -> tuple[Evaluation, Run]:
    """Return the evaluation, and the calling run, which must be working on it. Raises NotFound."""
    found = Evaluation.objects.filter(pk=whole_id(evaluation_id)).first()
    if found is None or found.run_id is None:
        raise NotFound("the evaluation does not exist")
    run = require_live_run(request)
    if found.run_id not in (run.pk, run.parent_id):
        raise NotFound("this token is for another run")
    return found, run


def _store_pushed(request: Request, evaluation_id: GivenId, body: SegmentRequest) -> int:
    user = require_scope(request, Scope.WRITE)
    found = get_evaluation(user, evaluation_id)
    require_role(user, found.owner, Role.MEMBER)
    if found.is_hosted:
        raise Conflict("only its own run can report to a hosted evaluation", code="hosted")
    return add_segment(evaluation=found, request=body, trusted=False)


def _readable(request: Request, evaluation_id: GivenId) -> Evaluation:
    check_read(request)
    return get_evaluation(request.user, evaluation_id)


def _view(user: Caller, row: Evaluation) -> EvaluationView:
    """Return the evaluation as it is now. Only members of its owner see the trace, which others could add to."""
    found = get_evaluation(user, row.pk)
    inside = has_role(user, found.owner, Role.READER)
    trace = found.run.trace_id if found.run and inside else None
    return evaluation_view(found, inside=inside).model_copy(update={"trace_id": trace})


def _acting_owner(request: Request, user: User) -> Owner:
    return get_owner(user, request.GET.get("owner") or user.username)


def _number(request: Request, name: str) -> float | None:
    raw = request.GET.get(name, "")
    try:
        number = float(raw) if raw else None
    except ValueError as error:
        raise Invalid(f"{name} must be a number", fields={name: raw[:100]}) from error
    if number is not None and not math.isfinite(number):
        raise Invalid(f"{name} must be finite", fields={name: raw[:100]})
    return number
