"""Pages of evaluations and rollouts. The evaluation page has two fragments: its figures ("live") and its rollouts."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, NamedTuple, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe
from envhub.packaging.conversation import clipped, pretty
from envhub.protocol.base import JsonObject
from envhub.protocol.evals.evaluations import EvaluationConfig, EvaluationSummary
from envhub.protocol.evals.shards import ShardView
from envhub.protocol.registry.packages import VisibilityPatch
from envhub.protocol.runs import Failure, Progress

from hub.accounts.models import Role, User
from hub.accounts.queries import has_role
from hub.core import clock
from hub.core.errors import HubError, Invalid, NotFound
from hub.core.http import validate
from hub.core.ids import GivenId
from hub.core.pages import fragment_of, page, show
from hub.core.pagination import newest_first, whole_number
from hub.evals.annotation_targets import target_of
from hub.evals.annotations import label_counts
from hub.evals.charts import coverage, histogram, metric_bar, pass_at_k_bars
from hub.evals.chosen_rollouts import written
from hub.evals.clusters.answer_clusters import answer_clusters
from hub.evals.clusters.failure_clusters import failure_clusters
from hub.evals.forecasts.outlook import outlook
from hub.evals.hidden_values import shown_outside
from hub.evals.models import RETRIED_KINDS, Evaluation
from hub.evals.paging import Sort, rollout_page
from hub.evals.queries import (
    get_evaluation,
    list_evaluations,
    shards_of,
    visible_evaluations,
)
from hub.evals.reading.annotation_panel import views_of
from hub.evals.reading.example_groups import group_page
from hub.evals.reading.odd_rollouts import odd_page
from hub.evals.replays import original_of
from hub.evals.reward_shades import shades_of
from hub.evals.rollout_filter import EXAMPLES, MIXED, ODD, OUTCOMES, SORTS, RolloutFilter
from hub.evals.services import cancel_evaluation, resume_evaluation, share_evaluation
from hub.evals.standings.leaderboard import leaderboard
from hub.evals.standings.watches import watches_of
from hub.evals.wire import evaluation_summary, evaluation_view, listed_evaluations, rollout_rows, shard_view
from hub.registry.pages import environment_context
from hub.runs.live_sandboxes import count_inside
from hub.runs.placing.waiting import waiting_reasons
from hub.runs.wire import trace_url

PAGE = 50
# Polls to skip between two refreshes of the table: a random number, so that open pages do not stay in step.
POLLS_BETWEEN = (1, 3)
_FILTERS = {"outcome", "label", "min_reward", "max_reward", "example", "cluster", "among"}
_CONFIG_SHOWN_ELSEWHERE = {"environment", "model", "name", "visibility"}


@page
@require_safe
def evaluation_list(request: HttpRequest) -> HttpResponseBase:
    """List the visible evaluations, newest first, optionally narrowed by environment, model and owner."""
    narrowed = {key: request.GET.get(key, "").strip() for key in ("environment", "model", "owner")}
    context: dict[str, Any] = {"section": "evaluations", "narrowed": narrowed}
    try:
        rows, following = newest_first(list_evaluations(request.user, **narrowed), request, default=PAGE)
    except NotFound as error:
        return show(request, "evals/evaluation_list.html", context | {"absent": error})
    except HubError as error:
        return show(request, "evals/evaluation_list.html", context | {"error": error}, status=422)
    context |= {"rows": listed_evaluations(request.user, rows), "next": following}
    return show(request, "evals/evaluation_list.html", context)


@page
@require_safe
def environment_evaluations(request: HttpRequest, owner: str, name: str) -> HttpResponseBase:
    """Show the Evaluations tab of an environment."""
    context = environment_context(request, owner, name, tab="evaluations")
    rows = visible_evaluations(request.user).filter(environment=context["environment"])
    found, following = newest_first(rows, request, default=PAGE)
    context |= {"rows": listed_evaluations(request.user, found), "next": following}
    if request.user.is_authenticated and not fragment_of(request):
        context["watches"] = list(watches_of(request.user, context["environment"]))
    if "before" not in request.GET:
        asked = request.GET.get("settings", "")
        context["board"] = leaderboard(request.user, context["environment"], asked)
    return show(request, "evals/environment_evaluations.html", context)


def _rollouts_as_json(view: Callable[[HttpRequest, GivenId], HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """`?format=json` of a page with a filter leads to the API's list of these rollouts, else to the evaluation."""

    def run(request: HttpRequest, evaluation_id: GivenId) -> HttpResponseBase:
        filters = set(request.GET) & _FILTERS
        if request.method not in {"GET", "HEAD"} or request.GET.get("format") != "json" or not filters:
            return view(request, evaluation_id)
        query = urlencode({name: request.GET[name] for name in sorted({*filters, *({"sort"} & set(request.GET))})})
        return redirect(f"/api/v1/evaluations/{evaluation_id}/rollouts?{query}")

    return update_wrapper(run, view)


@_rollouts_as_json
@page
@require_safe
def evaluation_detail(request: HttpRequest, evaluation_id: GivenId) -> HttpResponseBase:
    """Show one evaluation: figures, configuration, rollouts."""
    found = get_evaluation(request.user, evaluation_id)
    fragment, status = fragment_of(request), 200
    member = has_role(request.user, found.owner, Role.MEMBER)
    context: dict[str, Any] = {"section": "evaluations", "evaluation": found, "can_write": member}
    address = reverse("evaluation", args=[found.pk])
    context |= {"address": address, "rollouts_at": f"{address}/rollouts"}
    if fragment != "results":
        context |= _head(found, member=member, inside=member or has_role(request.user, found.owner, Role.READER))
        context["original"] = original_of(request.user, found)
    if fragment != "live":
        context |= views_of(request.user, target_of(found))
        context["labels"] = label_counts(target_of(found))
    if not fragment:
        context["clusters"] = failure_clusters(found, context["summary"].outcomes)
        context["wrong_answers"] = answer_clusters(found)
        context["outlook"] = outlook(found, difference=request.GET.get("difference", ""))
    if fragment != "live":
        try:
            context |= listed(request, found, labelled=bool(context["labels"]))
        except Invalid as error:
            context, status = context | {"error": error, "outcomes": OUTCOMES, "sorts": SORTS}, 422
    before = TableRefresh(request.GET.get("stored", ""), whole_number(request, "wait") or 0)
    if fragment == "live":
        context["told"] = _next_refresh(before, found, context["summary"].stored)
    elif not fragment:
        context["told"] = TableRefresh(str(context["summary"].stored), 0)
    response = show(request, "evals/evaluation_detail.html", context, status=status)
    if fragment == "live" and context["told"].stored != before.stored:
        response["HX-Trigger"] = "rollouts-stored"
    return response


class TableRefresh(NamedTuple):
    """How many rollouts there were when an open page was last told to refresh its table, and how many of its polls must
    pass before it is told again.
    """

    stored: str
    wait: int


def _next_refresh(before: TableRefresh, found: Evaluation, stored: int) -> TableRefresh:
    """Decide whether to refresh the table. Not at every change, because a table costs more than the figures."""
    if before.stored == str(stored) or (before.wait and not found.is_final):
        return TableRefresh(before.stored, max(before.wait - 1, 0))
    return TableRefresh(str(stored), random.randint(*POLLS_BETWEEN))  # noqa: S311 - no secret


def _head(found: Evaluation, *, member: bool, inside: bool) -> dict[str, Any]:
    """Return the figures, and what the viewer may do with the evaluation."""
    context, run = figures(found), found.run
    return context | {
        "configuration": _texts(_configuration(found.config if inside else shown_outside(found.config))),
        "waiting_for": waiting_reasons([run], now=clock.now()).get(run.pk) if run else None,
        "progress": Progress.model_validate(run.progress) if run and run.progress else None,
        "failure": Failure.model_validate(run.failure) if run and run.failure else None,
        "can_share": member,
        "can_cancel": member and run is not None and not found.is_final,
        "sandboxes_inside": count_inside(found.run_id) if member and not found.is_final else 0,
        "can_resume": member and _is_resumable(found, context["summary"]),
        "shards": _shards(found) if member else [],
        "trace_id": run.trace_id if run and member else None,
        "trace_url": trace_url(run.trace_id) if run and member else None,
        "cancelling": run is not None and run.cancel_requested_at is not None and not found.is_final,
    }


def figures(found: Evaluation) -> dict[str, Any]:
    """Return the context of `evals/_figures.html`, which depends on the evaluation's result alone."""
    view = evaluation_view(found)
    summary = view.summary
    return {
        "view": view,
        "summary": summary,
        "histogram": histogram(summary),
        "pass_at_k": pass_at_k_bars(summary.pass_at_k),
        "metrics": [metric_bar(metric) for metric in summary.metrics],
        "coverage": coverage(summary),
    }


def _shards(found: Evaluation) -> list[ShardView]:
    """Return the runs of an evaluation, if more than one works on it."""
    if found.is_final or not found.run_id:
        return []
    runs = shards_of(found)
    return [shard_view(run, found) for run in runs] if len(runs) > 1 else []


def _configuration(stored: JsonObject) -> JsonObject:
    """Restore the type's field order, which the database does not keep; fields the type no longer has come last."""
    names = [*EvaluationConfig.model_fields, *sorted(stored.keys() - EvaluationConfig.model_fields)]
    return {name: stored[name] for name in names if name in stored and name not in _CONFIG_SHOWN_ELSEWHERE}


def _texts(values: JsonObject) -> list[tuple[str, str]]:
    return [(name, clipped(value) if isinstance(value, str) else pretty(value)) for name, value in values.items()]


def _is_resumable(found: Evaluation, summary: EvaluationSummary) -> bool:
    """Whether to show the Resume button; the service has the last word."""
    kept = summary.stored - sum(summary.outcomes.get(kind, 0) for kind in RETRIED_KINDS)
    return found.is_hosted and found.is_final and (not found.planned or kept < found.planned)


def listed(request: HttpRequest, found: Evaluation, *, labelled: bool) -> dict[str, Any]:
    """Return the rollouts in the form that `show` asks for; `labelled`: whether any have labels. Raises Invalid."""
    wanted = request.GET.get("show")
    if wanted == ODD:
        return _odd(request, found)
    return _grouped(request, found) if wanted in (EXAMPLES, MIXED) else _rollouts(request, found, labelled=labelled)


def _odd(request: HttpRequest, found: Evaluation) -> dict[str, Any]:
    """Return the best rollouts that look odd."""
    odd = odd_page(found, request.GET.get("cursor", ""))
    query = urlencode({"show": ODD, "cursor": odd.cursor or ""})
    among = ",".join(f"{one.row.example}.{one.row.rollout}" for one in odd.rows)
    inside = RolloutFilter(show=ODD, among=among, sort=Sort.REWARD_DESC.value)
    following = f"{request.path}?{query}" if odd.cursor else None
    return {"grouped": ODD, "odd": odd, "next": following, "list_query": inside.query()}


def _grouped(request: HttpRequest, found: Evaluation) -> dict[str, Any]:
    """Return a page of examples with their rollouts, or only of examples with mixed rewards."""
    wanted = request.GET["show"]
    summary = evaluation_view(found).summary
    shades = shades_of([summary])
    page_of_groups = group_page(found, request, mixed=wanted == MIXED, shades=shades)
    # The list of all examples goes on after this page; that of the mixed ones would have to be searched for.
    among = written(group.example for group in page_of_groups.groups) if wanted == MIXED else ""
    inside = RolloutFilter(show=wanted, among=among, sort=Sort.EXAMPLE.value)
    return {
        "grouped": wanted,
        "groups": page_of_groups,
        "next": page_of_groups.next,
        "shades": shades,
        "list_query": inside.query(),
    }


def _rollouts(request: HttpRequest, found: Evaluation, *, labelled: bool) -> dict[str, Any]:
    wanted = validate(RolloutFilter, request.GET.dict())
    rows, following = rollout_page(wanted.rows(found), request)
    return {
        "wanted": wanted,
        "rollouts": rollout_rows(rows, found.prices, labelled=labelled),
        "has_text": any(row.asked or row.answered or row.target for row in rows),
        "shades": shades_of([evaluation_summary(found)]),
        "next": following,
        "outcomes": OUTCOMES,
        "sorts": SORTS,
    }


@page
@login_required
@require_POST
def evaluation_cancel(request: HttpRequest, evaluation_id: GivenId) -> HttpResponse:
    """Ask the evaluation's run to stop; stored rollouts stay."""
    return _changed(request, evaluation_id, cancel_evaluation, "Cancellation requested. Scored rollouts are kept.")


@page
@login_required
@require_POST
def evaluation_resume(request: HttpRequest, evaluation_id: GivenId) -> HttpResponse:
    """Queue a run for the missing rollouts."""
    return _changed(request, evaluation_id, resume_evaluation, "Queued. Only missing rollouts are attempted again.")


@page
@login_required
@require_POST
def evaluation_share(request: HttpRequest, evaluation_id: GivenId) -> HttpResponse:
    """Set who may see the evaluation."""
    user = cast("User", request.user)
    found = get_evaluation(user, evaluation_id)
    patch = validate(VisibilityPatch, {"visibility": request.POST.get("visibility")})
    share_evaluation(user=user, evaluation=found, visibility=patch.visibility)
    messages.success(request, f"This evaluation is now {patch.visibility.value}.")
    return redirect("evaluation", evaluation_id)


def _changed(request: HttpRequest, evaluation_id: GivenId, change: Callable[..., object], said: str) -> HttpResponse:
    user = cast("User", request.user)
    change(user=user, evaluation=get_evaluation(user, evaluation_id))
    messages.success(request, said)
    return redirect("evaluation", evaluation_id)
