"""The report of a training run for print: two pages, so lists are bounded and texts clipped."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe
from drf_spectacular.utils import extend_schema
from envhub.protocol.evals.fingerprints import FingerprintView
from envhub.protocol.training.metrics import StepMetrics
from rest_framework.decorators import api_view
from rest_framework.request import Request

from hub.accounts.models import Role
from hub.accounts.permissions import check_read
from hub.accounts.queries import has_role
from hub.core.http import answer
from hub.core.ids import GivenId
from hub.core.numbers import minus
from hub.core.pages import page
from hub.evals.hidden_values import hidden, shown_outside
from hub.evals.reports.figures import Lines, clip, instant, library_lines, worker_lines
from hub.registry.readiness import reference_of
from hub.training.charts.curves import charts_of, span_of
from hub.training.charts.history import chart_evaluations, chart_steps
from hub.training.evaluated import evaluated
from hub.training.fingerprints import training_fingerprint
from hub.training.models import TrainingRun
from hub.training.queries import get_training
from hub.training.wire import trained_on, training_view

AT_ENDS = 5  # the first and the newest reward are means over this many steps
MOST_CHARTS, MOST_EVALUATED, MOST_VERSIONS = 2, 8, 4
_TOLD = ("batch_size", "rollouts_per_example", "learning_rate", "lora_alpha", "sampling", "trainer")


@extend_schema(responses=FingerprintView)
@api_view(["GET"])
def fingerprint_of_training(request: Request, training_id: GivenId) -> HttpResponse:
    """What decides the result, and its SHA-256 as canonical JSON."""
    check_read(request)
    found = get_training(request.user, training_id)
    view = training_fingerprint(found)
    if not has_role(request.user, found.owner, Role.READER):
        view = view.model_copy(update={"settings": shown_outside(view.settings)})
    return answer(view)


@page
@require_safe
def training_report_page(request: HttpRequest, training_id: GivenId) -> HttpResponseBase:
    """Show the report of one run."""
    found = get_training(request.user, training_id)
    context = {"back": reverse("training-run", args=[found.pk]), "now": timezone.now()}
    inside = has_role(request.user, found.owner, Role.READER)
    return render(request, "training/run_report.html", context | training_report(found, inside=inside))


def training_report(training: TrainingRun, *, inside: bool) -> dict[str, Any]:
    """Return the context of the report. inside: the reader is a member and may see the names of workers."""
    steps = chart_steps(training) if training.step else []
    points = chart_evaluations(training)
    rewards = [step.reward_mean for step in steps if step.reward_mean is not None]
    return {
        "view": training_view(training, {}),
        "trained_on": trained_on(training),
        "first_reward": fmean(rewards[:AT_ENDS]) if len(rewards) > AT_ENDS else None,
        "last_reward": fmean(rewards[-AT_ENDS:]) if rewards else None,
        "charts": charts_of(steps, points)[:MOST_CHARTS],
        "span": span_of(steps, points) if steps else None,
        "evaluated": evaluated(training, points)[:MOST_EVALUATED],
        "measured": _measured(training),
        "figures": _figures(steps[-1]) if steps else [],
        "made": _made(training, inside=inside),
        "fingerprint": training_fingerprint(training),
    }


def _measured(training: TrainingRun) -> Lines:
    versions = trained_on(training)[:MOST_VERSIONS]
    lines = [("Model", f"{training.model_name}{f' at {training.revision}' if training.revision else ''}")]
    for item in versions:
        lines += [("Environment", reference_of(item.version)), ("Package, SHA-256", item.version.wheel_id)]
    lines.append(("Weights", "LoRA" if training.mode == "lora" else "every weight"))
    told = {name: hidden(_given(training.config.get(name))) for name in _TOLD}
    return lines + [(name, clip(value)) for name, value in told.items() if value]


def _given(value: object) -> object:
    """Drop unset values from a table."""
    return {name: one for name, one in value.items() if one not in (None, {}, [])} if isinstance(value, dict) else value


def _figures(step: StepMetrics) -> Lines:
    """Return the figures of the newest step."""
    values = (
        ("Loss", step.losses.get("loss")),
        ("KL to the sampler", step.kl),
        ("Entropy, nats a token", step.entropy),
        ("Gradient norm", step.grad_norm),
        ("Tokens trained on", step.trained_tokens or None),
        ("Rollouts failed", step.failed_share),
        ("Tokens a second, learner", step.tokens_per_s or None),
    )
    return [(name, minus(f"{value:.4g}")) for name, value in values if value is not None]


def _made(training: TrainingRun, *, inside: bool) -> Lines:
    lines = [("Started by", training.created_by.username)]
    lines += [("Started", instant(training.started_at or training.created_at))]
    lines += [("Ended", instant(training.finished_at))] if training.finished_at else [("State", training.state)]
    worker = training.run.worker if training.run else None
    lines += worker_lines([worker] if worker else [], inside=inside)
    versions = trained_on(training)
    return lines + library_lines(versions[0].version if versions else None)
