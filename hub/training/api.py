"""API of training runs for people and scripts: /api/v1/training. Workers report in hub.training.worker_api."""

from __future__ import annotations

from django.http import HttpResponse, StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from envhub.protocol.accounts.users import Scope
from envhub.protocol.base import Page
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.registry.packages import VisibilityPatch
from envhub.protocol.training.metrics import StepMetrics
from envhub.protocol.training.runs import ResumeRequest, TrainingRequest, TrainingRolloutRow, TrainingRunView
from rest_framework.decorators import api_view
from rest_framework.request import Request

from hub.accounts.models import User
from hub.accounts.permissions import check_read, require_scope
from hub.accounts.queries import get_owner, inside_owners
from hub.core.http import answer, parse, validate
from hub.core.ids import GivenId
from hub.core.pagination import newest_first, whole_number
from hub.core.requests.parameters import PAGE, choice, query
from hub.training.exports import ExportFormat, export_response
from hub.training.models import TrainingRun
from hub.training.paging import page_after
from hub.training.queries import (
    get_rollout,
    get_training,
    list_training,
    metrics_of,
    read_record,
    steps_after,
)
from hub.training.rollout_filter import TrainingRolloutFilter, rollout_page
from hub.training.services import (
    create_training,
    delete_training,
    resume_training,
    share_training,
    stop_training,
)
from hub.training.wire import rollout_rows, training_detail, training_views


@extend_schema(methods=["GET"], parameters=query("owner", "model", "name", *PAGE), responses=Page[TrainingRunView])
@extend_schema(methods=["POST"], parameters=query("owner"), request=TrainingRequest, responses={201: TrainingRunView})
@api_view(["GET", "POST"])
def training_runs(request: Request) -> HttpResponse:
    """List training runs, or start one.

    Returns the training runs that the caller may see, newest first; `owner`, `model` and `name` filter them. POST
    starts a run for `owner`.
    """
    if request.method == "POST":
        user = require_scope(request, Scope.WRITE)
        body = parse(request, TrainingRequest)
        owner = get_owner(user, request.GET.get("owner") or user.username)
        created = create_training(user=user, owner=owner, request=body)
        return _detail(user, created.pk, status=201)
    check_read(request)
    narrowed = {key: request.GET.get(key, "") for key in ("owner", "model", "name")}
    rows, following = newest_first(list_training(request.user, **narrowed), request)
    views = training_views(rows, now=timezone.now(), inside=inside_owners(request.user, rows))
    return answer(Page[TrainingRunView](items=tuple(views), next=following))


@extend_schema(methods=["GET"], responses=TrainingRunView)
@extend_schema(methods=["PATCH"], request=VisibilityPatch, responses=TrainingRunView)
@extend_schema(methods=["DELETE"], responses={204: None})
@api_view(["GET", "PATCH", "DELETE"])
def training_run(request: Request, training_id: GivenId) -> HttpResponse:
    """Return, change or delete a training run.

    The response includes its newest metrics, evaluations, health and adapters. PATCH changes who may see the run and
    its adapters.
    """
    if request.method == "GET":
        return answer(training_detail(readable(request, training_id), now=timezone.now(), caller=request.user))
    user = require_scope(request, Scope.WRITE)
    row = get_training(user, training_id)
    if request.method == "DELETE":
        delete_training(user=user, training=row)
        return HttpResponse(status=204)
    share_training(user=user, training=row, visibility=parse(request, VisibilityPatch).visibility)
    return _detail(user, training_id)


@extend_schema(request=None, responses=TrainingRunView)
@api_view(["POST"])
def training_stop(request: Request, training_id: GivenId) -> HttpResponse:
    """Ask a training run to stop. Existing checkpoints and adapters are kept."""
    user = require_scope(request, Scope.WRITE)
    stop_training(user=user, training=get_training(user, training_id))
    return _detail(user, training_id)


@extend_schema(request=ResumeRequest, responses=TrainingRunView)
@api_view(["POST"])
def training_resume(request: Request, training_id: GivenId) -> HttpResponse:
    """Resume a training run from its newest checkpoint, or from that of `step`.

    Everything after the checkpoint is discarded.
    """
    user = require_scope(request, Scope.WRITE)
    step = parse(request, ResumeRequest).step
    resume_training(user=user, training=get_training(user, training_id), step=step)
    return _detail(user, training_id)


@extend_schema(parameters=query("after_step", "limit"), responses=Page[StepMetrics])
@api_view(["GET"])
def training_metrics(request: Request, training_id: GivenId) -> HttpResponse:
    """List the metrics of a training run's steps in order.

    Returns the steps after `after_step`, each with the evaluations that followed it.
    """
    row = readable(request, training_id)
    plain = request._request
    after = whole_number(plain, "after_step") or 0
    steps, following = page_after(steps_after(row, after), plain, "after_step", lambda step: step.step)
    return answer(Page[StepMetrics](items=tuple(metrics_of(row, steps)), next=following))


@extend_schema(
    parameters=[
        *query("step"),
        OpenApiParameter("environment", str, description="only those of this environment, by its label"),
        OpenApiParameter("used", str, description="`yes`: only those in the batch; `no`: only those left out"),
        *query("outcome", "label", "after", "limit"),
    ],
    responses=Page[TrainingRolloutRow],
)
@api_view(["GET"])
def training_rollouts(request: Request, training_id: GivenId) -> HttpResponse:
    """List the rollouts of a training step in short form.

    Returns those of `step` (default: the newest) in order; with a `label` and no `step`, those of all steps. Filter by
    `environment` (its label), `outcome` and `used`.
    """
    row = readable(request, training_id)
    wanted = validate(TrainingRolloutFilter, request.query_params.dict())
    found = rollout_page(row, wanted, request._request)
    return answer(Page[TrainingRolloutRow](items=tuple(rollout_rows(found.rows)), next=found.next))


@extend_schema(responses=RolloutRecord)
@api_view(["GET"])
def training_rollout(request: Request, training_id: GivenId, step: int, index: int) -> HttpResponse:
    """Return a complete rollout. Its extras contain the token view."""
    return answer(read_record(get_rollout(readable(request, training_id), step, index)))


@extend_schema(
    parameters=[choice("format", ExportFormat, ExportFormat.JSONL), *query("labels")],
    responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
)
@api_view(["GET"])
def training_export(request: Request, training_id: GivenId) -> StreamingHttpResponse:
    """Export a training run.

    `format` is jsonl or tensorboard for metrics, or parquet for rollouts. With `labels=true` the rollouts include their
    labels.
    """
    row = readable(request, training_id)
    with_labels = request.GET.get("labels") == "true"
    return export_response(request._request, row, format=request.GET.get("format", "jsonl"), with_labels=with_labels)


def readable(request: Request, training_id: GivenId) -> TrainingRun:
    """Return the run, if the caller may see it. Raises NotFound, NotAllowed."""
    check_read(request)
    return get_training(request.user, training_id)


def _detail(user: User, training_id: GivenId, status: int = 200) -> HttpResponse:
    return answer(training_detail(get_training(user, training_id), now=timezone.now(), caller=user), status=status)
