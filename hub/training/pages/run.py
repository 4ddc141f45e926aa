"""Pages of one training run: charts, numbers, configuration, weights, log. Their header updates by itself."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe
from envhub.packaging.conversation import pretty
from envhub.protocol.runs import Progress, RunState
from envhub.protocol.training.command import evaluation_flags
from envhub.protocol.training.health import WINDOW, health
from envhub.protocol.training.log import ALL, processes_of
from envhub.protocol.training.metrics import StepMetrics
from envhub.protocol.training.runs import HealthLevel

from hub.accounts.models import Role
from hub.accounts.queries import has_role
from hub.core.digests import sha256_hex
from hub.core.errors import Invalid, NotFound
from hub.core.ids import GivenId
from hub.core.pages import fragment_of, page, show
from hub.core.pagination import whole_number
from hub.evals.hidden_values import shown_outside
from hub.registry.readiness import reference_of
from hub.runs.live_sandboxes import count_inside
from hub.runs.wire import trace_url
from hub.training.annotation_targets import target_of_training
from hub.training.charts.curves import charts_of, span_of
from hub.training.charts.heatmap import heat_map
from hub.training.charts.history import chart_evaluations, chart_steps, evaluation_count
from hub.training.charts.zoom import Zoom, zoomed_steps
from hub.training.evaluated import evaluated
from hub.training.log_lines import log_lines
from hub.training.models import Step, TrainingRun
from hub.training.queries import adapters_of, checkpoints_of, get_training, metrics_of, recent_metrics
from hub.training.services.resuming import can_go_back, is_resumable
from hub.training.wire import adapter_view, checkpoint_view, toml_for, trained_on, training_views

RANGES = ((0, "all steps"), (500, "newest 500"), (100, "newest 100"), (25, "newest 25"))
NUMBERS = 50  # steps per page
MOST_WEIGHTS = 200
Context = dict[str, Any]
Fill = Callable[[HttpRequest, TrainingRun, Context], Context]


def run_context(request: HttpRequest, found: TrainingRun, *, tab: str) -> dict[str, Any]:
    """Return the context of the header and the tabs."""
    (view,) = training_views([found], now=timezone.now())
    run, recent = found.run, recent_metrics(found) if found.step else []
    may_write = has_role(request.user, found.owner, Role.MEMBER)
    may_read = may_write or has_role(request.user, found.owner, Role.READER)
    return {
        "section": "training",
        "tab": tab,
        "training": found,
        "view": view,
        "trained_on": trained_on(found),
        "made": adapters_of(found).first(),
        "progress": Progress.model_validate(run.progress) if run and run.progress else None,
        "eta": remaining(recent, found.max_steps) if view.state is RunState.RUNNING else "",
        "recent": recent,
        "seen": news_of(found),
        "stopping": run is not None and run.cancel_requested_at is not None and not found.is_final,
        "can_share": may_write,
        "can_stop": may_write and not found.is_final,
        "can_resume": may_write and is_resumable(found),
        "can_go_back": may_write and can_go_back(found),
        "can_read_log": may_read and run is not None,
        "trace_id": run.trace_id if run and may_read else None,
        "trace_url": trace_url(run.trace_id) if run and may_read else None,
        "sandboxes_inside": count_inside(found.run_id) if may_read and not found.is_final else 0,
    }


def news_of(found: TrainingRun) -> str:
    """Return a hash that changes with everything that the header and the charts show."""
    run = found.run
    progress = (run.progress or {}).get("note", "") if run else ""
    asked = run is not None and run.cancel_requested_at is not None
    parts = (found.state, found.step, evaluation_count(found), progress, asked, found.run_id)
    return sha256_hex(repr(parts))[:16]


def is_unchanged(request: HttpRequest, found: TrainingRun) -> bool:
    """Return whether a polling page is up to date. A queued run is always shown again, as its reason may change."""
    if fragment_of(request) != "live" or found.state == RunState.QUEUED.value:
        return False
    return request.GET.get("seen") == news_of(found)


def remaining(recent: list[StepMetrics], max_steps: int) -> str:
    """Estimate the remaining time from the newest steps' pace: "28 min"; "" if too few are known."""
    paces = [step.seconds["step"] for step in recent if "step" in step.seconds]  # excludes time between attempts
    if len(paces) < 2:
        return ""
    minutes = round(fmean(paces) * max(0, max_steps - recent[-1].step) / 60)
    if minutes >= 90:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min" if minutes > 1 else "a minute"


def show_tab(request: HttpRequest, training_id: GivenId, tab: str, fill: Fill) -> HttpResponseBase:
    """Show a tab of a run with what `fill` adds to its header; a 204 if a polling page is up to date."""
    found = get_training(request.user, training_id)
    if is_unchanged(request, found):
        return HttpResponse(status=204)
    head = run_context(request, found, tab=tab)
    return show(request, f"training/run_{tab}.html", head | fill(request, found, head))


@page
@require_safe
def training_run(request: HttpRequest, training_id: GivenId) -> HttpResponseBase:
    """Show the charts."""
    return show_tab(request, training_id, "charts", _charts)


def _charts(request: HttpRequest, found: TrainingRun, head: Context) -> Context:
    address = reverse("training-run", args=[found.pk])
    return {"address": address} | training_figures(request, found, head["recent"])


def training_figures(request: HttpRequest, found: TrainingRun, recent: list[StepMetrics]) -> Context:
    """Return the context of `training/_figures.html`."""
    newest = whole_number(request, "newest") or 0
    zoom = Zoom(whole_number(request, "from"), whole_number(request, "to"))
    context: Context = {"ranges": RANGES, "newest": newest, "zoom": zoom, "health": [], "charts": []}
    context["listed_at"] = target_of_training(found).listed_at
    if found.step or found.latest:
        context |= _figures(found, newest, zoom) | {"health": badges(recent)}
    return context


def _figures(found: TrainingRun, newest: int, zoom: Zoom) -> dict[str, Any]:
    steps = zoomed_steps(found, zoom) if zoom else chart_steps(found, newest=newest or None)
    if not steps:
        return {}
    first = (zoom.first or 0) if zoom else steps[0].step if newest else 0
    points = chart_evaluations(found, first=first, last=zoom.last)
    maps = (
        heat_map("rewards", "Rewards", steps, lambda step: step.rewards),
        heat_map("advantages", "Advantages", steps, lambda step: step.advantages),
    )
    return {
        "charts": charts_of(steps, points),
        "span": span_of(steps, points),
        "evaluated": evaluated(found, points),
        "maps": [one for one in maps if one is not None],
        "drawn": len(steps),
        "covered": steps[-1].step - steps[0].step + 1,
    }


def badges(recent: list[StepMetrics]) -> list[dict[str, Any]]:
    """Return the health badges, the worst first, with the CSS class of each level."""
    tones = {HealthLevel.BAD: "bad", HealthLevel.WARN: "warn", HealthLevel.OK: "good"}
    order = list(tones)
    found = sorted(health(recent), key=lambda badge: order.index(badge.level))
    return [{"badge": badge, "tone": tones[badge.level], "window": min(WINDOW, len(recent))} for badge in found]


@page
@require_safe
def training_numbers(request: HttpRequest, training_id: GivenId) -> HttpResponseBase:
    """Show every step's figures as a table, the newest first."""
    return show_tab(request, training_id, "numbers", _numbers)


def _numbers(request: HttpRequest, found: TrainingRun, head: Context) -> Context:
    before = whole_number(request, "before")
    rows = Step.objects.filter(training=found).order_by("-step")
    steps = list(rows.filter(step__lt=before)[:NUMBERS] if before else rows[:NUMBERS])
    more = len(steps) == NUMBERS and steps[-1].step > 1
    return {
        "steps": metrics_of(found, reversed(steps))[::-1],
        "next": f"{request.path}?before={steps[-1].step}" if more else "",
    }


@page
@require_safe
def training_configuration(request: HttpRequest, training_id: GivenId) -> HttpResponseBase:
    """Show what was submitted, without the values of environment variables."""
    return show_tab(request, training_id, "configuration", _configuration)


def _configuration(request: HttpRequest, found: TrainingRun, head: Context) -> Context:
    inside = has_role(request.user, found.owner, Role.READER)
    return {
        "toml": toml_for(found, inside=inside),
        "was_toml": bool(found.toml),
        "settings": pretty(found.config if inside else shown_outside(found.config)),
        "pinned": [(item, reference_of(item.version)) for item in found.versions.all()],
    }


@page
@require_safe
def training_weights(request: HttpRequest, training_id: GivenId) -> HttpResponseBase:
    """Show what the run has made: adapters in the catalog, and checkpoints."""
    return show_tab(request, training_id, "weights", _weights)


def _weights(request: HttpRequest, found: TrainingRun, head: Context) -> Context:
    trained_on = head["trained_on"]
    return {
        "adapters": [adapter_view(row) for row in adapters_of(found)[:MOST_WEIGHTS]],
        "checkpoints": [checkpoint_view(row) for row in checkpoints_of(found)[:MOST_WEIGHTS]],
        "first_environment": reference_of(trained_on[0].version).partition("@")[0] if trained_on else "OWNER/NAME",
        "evaluation_flags": evaluation_flags(shown_outside(found.config)),
    }


@page
@require_safe
def training_log(request: HttpRequest, training_id: GivenId) -> HttpResponseBase:
    """Show the newest lines of the run's log to members of its owner, optionally of one process."""
    return show_tab(request, training_id, "log", _log)


def _log(request: HttpRequest, found: TrainingRun, head: Context) -> Context:
    if not head["can_read_log"]:
        raise NotFound("only members of the owner can see the log")
    run = found.run
    labels = head["view"].labels
    process, text = request.GET.get("process", ALL), request.GET.get("text", "").strip()[:200]
    processes = processes_of(labels)
    if process not in processes:
        raise Invalid(f"process is one of {', '.join(processes)}", fields={"process": process[:100]})
    attempt = whole_number(request, "attempt")
    attempt = run.attempt if run and attempt is None else attempt or 0
    return {
        "run": run,
        "processes": processes,
        "process": process,
        "text": text,
        "attempt": attempt,
        "attempts": range(1, run.attempt + 1) if run else (),
        "log": log_lines(run.pk, attempt, labels, process=process, text=text) if run else None,
    }
