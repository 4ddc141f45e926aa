"""Lists of training runs (all, or those of an environment), and the forms that stop, resume and share one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe
from envhub.protocol.registry.packages import VisibilityPatch
from envhub.protocol.runs import RunState
from envhub.protocol.training.runs import ResumeRequest

from hub.accounts.models import User
from hub.accounts.queries import Caller
from hub.core.http import validate
from hub.core.ids import GivenId
from hub.core.pages import page, show
from hub.core.pagination import newest_first
from hub.core.sparkline import sparkline
from hub.evals.forecasts.outlook import outlook
from hub.evals.queries import visible_evaluations
from hub.registry.models import Environment
from hub.registry.pages import environment_context
from hub.training.charts.history import last_rewards
from hub.training.models import TrainingRun, TrainingVersion
from hub.training.queries import get_training, list_training, visible_training
from hub.training.services import resume_training, share_training, stop_training
from hub.training.wire import training_views

PAGE = 30
LOOKED_AT = 20  # evaluations of an environment that are considered for its forecast


@page
@require_safe
def training_list(request: HttpRequest) -> HttpResponseBase:
    """List the visible runs, newest first, optionally narrowed by model, owner and state."""
    narrowed = {key: request.GET.get(key, "").strip() for key in ("model", "owner", "state")}
    rows = list_training(request.user, owner=narrowed["owner"], model=narrowed["model"])
    if narrowed["state"] in set(RunState):
        rows = rows.filter(state=narrowed["state"])
    found, following = newest_first(rows, request, default=PAGE)
    context = {
        "section": "training",
        "narrowed": narrowed,
        "states": [state.value for state in RunState],
        "rows": listed(found),
        "next": following,
        "moving": any(not row.is_final for row in found) and "before" not in request.GET,
    }
    return show(request, "training/training_list.html", context)


def listed(rows: list[TrainingRun]) -> list[dict[str, Any]]:
    """Prepare runs for training/_training_items.html."""
    rewards = last_rewards(rows)
    views = training_views(rows, now=timezone.now())
    return [
        {
            "row": row,
            "view": view,
            "spark": sparkline(rewards.get(row.pk, [])),
            "percent": round(100 * min(1.0, row.step / max(1, row.max_steps)), 1),
        }
        for row, view in zip(rows, views, strict=True)
    ]


@page
@require_safe
def environment_training(request: HttpRequest, owner: str, name: str) -> HttpResponseBase:
    """Show an environment's Training tab: the runs that were trained or evaluated on it."""
    context = environment_context(request, owner, name, tab="training")
    uses = TrainingVersion.objects.filter(training=OuterRef("pk"), version__environment=context["environment"])
    found, following = newest_first(visible_training(request.user).filter(Exists(uses)), request, default=PAGE)
    context |= {"rows": listed(found), "next": following}
    if "before" not in request.GET:
        context |= _outlook(request.user, context["environment"])
    return show(request, "training/environment_training.html", context)


def _outlook(user: Caller, environment: Environment) -> dict[str, Any]:
    """Return the forecast of the newest evaluation that has two rollouts of an example; {} without one.

    Evaluations with the environment's own arguments come first, because the form for training begins with these.
    """
    rows = visible_evaluations(user).filter(environment=environment, state=RunState.SUCCEEDED.value)
    newest = rows.select_related("run")[:LOOKED_AT]
    for row in sorted(newest, key=lambda row: any(row.config.get(name) for name in ("env_args", "taskset", "harness"))):
        found = outlook(row)
        if found.forecast is not None:
            return {"outlook": found, "foretold_by": row}
    return {}


@page
@login_required
@require_POST
def training_stop(request: HttpRequest, training_id: GivenId) -> HttpResponse:
    """Stop the run after its current step."""
    return _changed(request, training_id, stop_training, "Stop requested. Existing checkpoints and adapters are kept.")


@page
@login_required
@require_POST
def training_resume(request: HttpRequest, training_id: GivenId) -> HttpResponse:
    """Resume from the newest checkpoint, or from that of a step."""
    step = validate(ResumeRequest, {"step": request.POST.get("step") or None}).step
    place = "its newest checkpoint" if step is None else f"step {step}"
    return _changed(
        request, training_id, partial(resume_training, step=step), f"Queued again. The run continues from {place}."
    )


@page
@login_required
@require_POST
def training_share(request: HttpRequest, training_id: GivenId) -> HttpResponse:
    """Set who may see the run and call its adapters."""
    user = cast("User", request.user)
    found = get_training(user, training_id)
    patch = validate(VisibilityPatch, {"visibility": request.POST.get("visibility")})
    share_training(user=user, training=found, visibility=patch.visibility)
    messages.success(request, f"This run and its adapters are now {patch.visibility.value}.")
    return redirect("training-run", training_id)


def _changed(request: HttpRequest, training_id: GivenId, change: Callable[..., object], said: str) -> HttpResponse:
    user = cast("User", request.user)
    change(user=user, training=get_training(user, training_id))
    messages.success(request, said)
    return redirect("training-run", training_id)
