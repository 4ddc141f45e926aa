"""`prime eval push|list|get|samples|run --hosted|logs|stop`, and the uploads of `vf-eval`."""

from __future__ import annotations

from django.http import HttpResponseBase, JsonResponse
from envhub.protocol.accounts.users import Scope
from rest_framework.request import Request

from hub.accounts.permissions import check_read, require_scope
from hub.accounts.queries import require_role
from hub.compat.answers import MOST_COUNTED, MOST_ROWS, answered, body, client_view, counted, number, printable, text
from hub.compat.building import await_builds
from hub.compat.names import acting_owner, environment_of
from hub.compat.services.evaluations import MOST_ENVIRONMENTS, begin_results, change_results, start_hosted
from hub.compat.services.samples import add_samples
from hub.compat.wire import evaluation_object, sample_objects, viewer_url
from hub.core.errors import Invalid
from hub.core.ids import GivenId
from hub.evals.models import Evaluation
from hub.evals.queries import filter_rollouts, get_evaluation, list_evaluations
from hub.evals.services import cancel_evaluation, finalize_push
from hub.runs.queries import read_log

_MOST_SAMPLES = 100  # per page; each is a whole rollout
_MOST_LOG = 1024**2  # characters


@client_view("GET", "POST")
def evaluations(request: Request) -> HttpResponseBase:
    """List the evaluations of the caller or a team (GET), or begin an upload (POST)."""
    if request.method == "POST":
        user = require_scope(request, Scope.WRITE)
        given = body(request)
        made = begin_results(user=user, owner=acting_owner(user, given), given=given)
        return answered({"evaluation_id": str(made.pk), "name": made.name, "viewer_url": viewer_url(made)}, status=201)
    user = require_scope(request, Scope.READ)
    owner = acting_owner(user, request.query_params.dict())
    wanted = request.query_params.get("environment_name", "")
    rows = list_evaluations(user, owner=owner.slug, environment=wanted if "/" in wanted else "")
    if wanted and "/" not in wanted:
        rows = rows.filter(environment__name=wanted)
    skip = number(request, "skip", 0, most=MOST_COUNTED)
    limit = number(request, "limit", 50, most=MOST_ROWS)
    shown = rows.select_related("run")[skip : skip + limit]
    return answered({"evaluations": [evaluation_object(row) for row in shown], "total": counted(rows)})


@client_view("GET", "PUT")
def evaluation(request: Request, evaluation_id: GivenId) -> HttpResponseBase:
    """Return one evaluation (GET), or change one that is being uploaded (PUT)."""
    if request.method == "GET":
        return answered(evaluation_object(_readable(request, evaluation_id)))
    user = require_scope(request, Scope.WRITE)
    change_results(user=user, evaluation=get_evaluation(user, evaluation_id), given=body(request))
    return answered(evaluation_object(get_evaluation(user, evaluation_id)))


def _readable(request: Request, evaluation_id: GivenId) -> Evaluation:
    check_read(request)
    return get_evaluation(request.user, evaluation_id)


@client_view("GET", "POST")
def samples(request: Request, evaluation_id: GivenId) -> HttpResponseBase:
    """Return a page of rollouts in the order of their arrival (GET), or store more (POST)."""
    if request.method == "POST":
        user = require_scope(request, Scope.WRITE)
        found = get_evaluation(user, evaluation_id)
        given = body(request).get("samples")
        if not isinstance(given, list):
            raise Invalid("samples must be a list", fields={"samples": "a list is expected"})
        return answered({"samples_stored": add_samples(user=user, evaluation=found, samples=given)})
    found = _readable(request, evaluation_id)
    limit = max(1, number(request, "limit", _MOST_SAMPLES, most=_MOST_SAMPLES))
    page = max(1, number(request, "page", 1, most=MOST_COUNTED))
    rows = filter_rollouts(found).select_related("segment").order_by("pk")
    start = (page - 1) * limit
    shown, total = sample_objects(list(rows[start : start + limit])), evaluation_object(found)["total_samples"]
    told = {"total": total, "page": page, "limit": limit, "total_pages": -(-total // limit)}
    return answered({"samples": shown, "has_more": start + limit < total, **told})


@client_view("POST")
def finalize(request: Request, evaluation_id: GivenId) -> HttpResponseBase:
    """Complete an upload.

    Metrics in the request are only kept as metadata; the hub computes its own from the rollouts.
    """
    user = require_scope(request, Scope.WRITE)
    found = get_evaluation(user, evaluation_id)
    given = body(request)
    if given.get("metrics") and not found.is_final:
        found = change_results(user=user, evaluation=found, given={"metrics": given["metrics"]})
    ended = finalize_push(user=user, evaluation=found)
    return answered({"evaluation_id": str(ended.pk), "status": "COMPLETED", "viewer_url": viewer_url(ended)})


@client_view("POST")
def hosted(request: Request) -> HttpResponseBase:
    """Start an evaluation of each environment on the hub."""
    user = require_scope(request, Scope.WRITE)
    given = body(request)
    listed, config = given.get("environment_ids"), given.get("eval_config") or {}
    if not isinstance(listed, list) or not 0 < len(listed) <= MOST_ENVIRONMENTS or not isinstance(config, dict):
        raise Invalid(f"environment_ids are 1 to {MOST_ENVIRONMENTS} ids, and eval_config is an object")
    environments = [environment_of(user, one) for one in listed]
    await_builds(row.latest_id for row in environments if row.latest_id)
    made = start_hosted(
        user=user,
        owner=acting_owner(user, given),
        environments=environments,
        model=text(given, "inference_model"),
        name=str(given.get("name") or ""),
        given=config,
    )
    ids = [str(one.pk) for one in made]
    return answered({"evaluation_id": ids[0], "evaluation_ids": ids, "viewer_url": viewer_url(made[0])}, status=201)


@client_view("GET")
def hosted_logs(request: Request, evaluation_id: GivenId) -> HttpResponseBase:
    """Return the log of the evaluation's run so far."""
    user = require_scope(request, Scope.READ)
    found = get_evaluation(user, evaluation_id)
    require_role(user, found.owner)
    return answered({"logs": printable(_log(found))})


def _log(evaluation: Evaluation) -> str:
    if evaluation.run is None:
        return ""
    texts, offset, at_end = [], 0, False
    while not at_end and offset < _MOST_LOG:
        piece, offset, at_end = read_log(evaluation.run.pk, evaluation.run.attempt, offset)
        texts.append(piece)
    return "".join(texts)


@client_view("PATCH")
def hosted_cancel(request: Request, evaluation_id: GivenId) -> HttpResponseBase:
    """Ask the evaluation's run to stop; stored rollouts stay."""
    user = require_scope(request, Scope.WRITE)
    cancel_evaluation(user=user, evaluation=get_evaluation(user, evaluation_id))
    return answered({"message": "the evaluation is being cancelled"})


@client_view("GET", "POST", signed_in=False)
def traces(request: Request) -> HttpResponseBase:
    """Report that there is no separate store of traces; the clients then send the whole episodes as samples."""
    message = "this hub keeps rollouts with what made them: `prime eval samples ID`, `prime train rollouts ID`"
    return JsonResponse({"error": {"code": "service_not_enabled", "message": message}}, status=403)
