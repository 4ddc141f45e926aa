"""The page of a step's rollouts, one by one or by example."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.http import require_safe
from envhub.protocol.training.metrics import Histogram, StepMetrics

from hub.core.errors import Invalid
from hub.core.http import validate
from hub.core.ids import GivenId
from hub.core.pages import fragment_of, page, show
from hub.evals.annotations import label_counts
from hub.evals.charts import Histogram as Bars
from hub.evals.charts import equal_bins
from hub.evals.reading.annotation_panel import views_of
from hub.evals.reward_shades import Shades
from hub.evals.rollout_filter import OUTCOMES
from hub.training.annotation_targets import target_of_training
from hub.training.example_groups import GROUPED, MIXED, group_page
from hub.training.models import Step, TrainingRollout, TrainingRun, Use
from hub.training.odd_rollouts import odd_rollouts
from hub.training.pages.run import is_unchanged, run_context
from hub.training.queries import get_training
from hub.training.rollout_filter import USED, TrainingRolloutFilter, rollout_page, shown_step
from hub.training.rollout_places import OpenedFrom, shades_of, shades_of_step
from hub.training.wire import rollout_rows


@page
@require_safe
def training_rollouts(request: HttpRequest, training_id: GivenId) -> HttpResponseBase:
    """List the rollouts of a step (default: the newest) that match the filter."""
    found = get_training(request.user, training_id)
    if is_unchanged(request, found):
        return HttpResponse(status=204)
    context, status = run_context(request, found, tab="rollouts"), 200
    context |= {"outcomes": OUTCOMES, "used_options": USED}
    if fragment_of(request) != "live":
        try:
            context |= step_figures(request, found) | views_of(request.user, target_of_training(found))
        except Invalid as error:
            context, status = context | {"error": error}, 422
    return show(request, "training/rollout_list.html", context, status=status)


def step_figures(request: HttpRequest, found: TrainingRun) -> dict[str, Any]:
    """Return the context of `training/_rollouts.html` for the requested step; it does not depend on the viewer.

    Raises Invalid.
    """
    wanted = validate(TrainingRolloutFilter, request.GET.dict())
    wanted.check()
    by = request.GET.get("show", "")
    return _grouped(request, found, wanted, by) if by in dict(GROUPED) else _listed(request, found, wanted)


def _listed(request: HttpRequest, found: TrainingRun, wanted: TrainingRolloutFilter) -> dict[str, Any]:
    """Return a page of rollouts: of a step or, with a label and no step, of all steps."""
    shown = rollout_page(found, wanted, request)
    step, rows = shown.step, rollout_rows(shown.rows)
    context = _step(found, wanted, step) | {
        "everywhere": shown.everywhere,
        "here": OpenedFrom(wanted, everywhere=shown.everywhere).query(),
        "rollouts": [(row, staleness(one, row.step)) for row, one in zip(rows, shown.rows, strict=True)],
        "has_text": any(row.asked or row.answered or row.target for row in rows),
        "next": shown.next,
    }
    metrics = context["metrics"]
    context["shades"] = shades_of_step(metrics) if step else shades_of(row.reward for row in rows)
    if step is None or wanted.narrows or "after" in request.GET:
        return context
    return context | {
        "first_page": True,
        "rewards": bars(metrics.rewards, context["shades"]),
        "advantages": bars(metrics.advantages),
        "odd": odd_rollouts(step),
    }


def _grouped(request: HttpRequest, found: TrainingRun, wanted: TrainingRolloutFilter, by: str) -> dict[str, Any]:
    """Return a page of a step's examples with their rollouts, or only of examples with mixed rewards."""
    step = shown_step(found, request)
    context = _step(found, wanted, step, by) | {"here": wanted.query()}
    if step is None:
        return context
    shades = shades_of_step(context["metrics"])
    groups = group_page(found, step, wanted, request, mixed=by == MIXED, shades=shades)
    return context | {"groups": groups, "next": groups.next, "shades": shades}


def _step(found: TrainingRun, wanted: TrainingRolloutFilter, step: Step | None, by: str = "") -> dict[str, Any]:
    """Return what is above the table: the step with its neighbours, the ways of showing it, and the filter."""
    of, number = target_of_training(found), step.step if step else 0
    shown = step.step if step else ""
    return {
        "listed_at": of.listed_at,
        "wanted": wanted,
        "narrowed": wanted.narrows,
        "step": step,
        "metrics": StepMetrics.model_validate(step.metrics) if step else None,
        "grouped": by,
        "ways": [(name, text, wanted.query(step=shown, show=name)) for name, text in (("", "All rollouts"), *GROUPED)],
        "earlier": (number - 1, wanted.query(step=number - 1, show=by)) if number > 1 else None,
        "later": (number + 1, wanted.query(step=number + 1, show=by)) if step and number < found.step else None,
        "counts": label_counts(of),
        "labels": sorted({item.label for item in found.versions.all() if item.use == Use.TRAIN}),
    }


def staleness(row: TrainingRollout, step: int) -> tuple[int, int] | None:
    """Return by how many weight versions the newest and the oldest token are behind; None without tokens."""
    if row.version_min is None or row.version_max is None:
        return None
    return max(0, step - 1 - row.version_max), max(0, step - 1 - row.version_min)


def bars(one: Histogram | None, shades: Shades | None = None) -> Bars | None:
    """Prepare a step's histogram for drawing."""
    if one is None:
        return None
    return equal_bins(one.counts, one.low, one.high if one.high > one.low else one.low + 1, shades)
