"""The page that compares several training runs: overlaid curves, and the settings that differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_safe
from envhub.protocol.training.metrics import StepMetrics
from pydantic import BaseModel, ConfigDict, Field, field_validator

from hub.accounts.models import Role
from hub.accounts.queries import Caller, has_role
from hub.core.errors import Invalid
from hub.core.http import validate
from hub.core.ids import AskedId
from hub.core.pages import page, show
from hub.evals.hidden_values import shown_outside
from hub.registry.readiness import reference_of
from hub.training.charts.curves import SEPARATOR
from hub.training.charts.history import chart_evaluations
from hub.training.charts.overlay import (
    TONES,
    WORDS,
    Axis,
    Curves,
    Drawn,
    evaluated_charts,
    overlaid,
    span_over,
)
from hub.training.charts.overlay_panels import OVERLAID
from hub.training.charts.zoom import Zoom, steps_on
from hub.training.configuration_diff import differing
from hub.training.models import TrainingRun
from hub.training.queries import get_many_training
from hub.training.wire import trained_on, training_views

MOST = 8  # runs
AXES = ((Axis.STEP, "step"), (Axis.TIME, "time"), (Axis.TOKENS, "tokens trained on"))
SMOOTHING = ((0.0, "none"), (0.6, "some"), (0.9, "much"), (0.97, "most"))


class OverlayQuery(BaseModel):
    """Query parameters. first, last: the shown part of the x axis, in steps, seconds or tokens."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    id: tuple[AskedId, ...]
    by: Axis = Axis.STEP
    smooth: float = Field(default=0.0, ge=0.0, lt=1.0)
    scale: str = "linear"
    first: int | None = Field(default=None, ge=0, lt=2**53, alias="from")
    last: int | None = Field(default=None, ge=0, lt=2**53, alias="to")

    @field_validator("first", "last", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if value == "" else value

    @property
    def zoom(self) -> Zoom:
        """The shown part of the x axis."""
        return Zoom(self.first, self.last)


@page
@require_safe
def training_compare(request: HttpRequest) -> HttpResponseBase:
    """Serve `?id=ID&id=ID&by=time&smooth=0.6&scale=log&from=10&to=50`; `from` and `to` are positions on the x axis."""
    ids = [one for one in request.GET.getlist("id") if one]
    if not ids:
        messages.info(request, f"Select up to {MOST} training runs, then compare them.")
        return redirect("training")
    asked = validate(OverlayQuery, request.GET.dict() | {"id": ids})
    if len(ids) > MOST:
        raise Invalid(f"at most {MOST} training runs can be compared at once", hint="choose fewer")
    runs = get_many_training(request.user, asked.id)
    tones = tones_of(runs)
    return show(
        request, "training/training_compare.html", _head(request.user, runs, tones, asked) | _charts(runs, tones, asked)
    )


def tones_of(runs: Sequence[TrainingRun]) -> list[int]:
    """Return a colour for each run, derived from its id so that it is stable; if two collide, the newer one changes."""
    taken: list[int] = []
    for run in runs:
        wanted = run.pk.int % TONES
        taken.append(next(tone for place in range(TONES) if (tone := (wanted + place) % TONES) not in taken))
    return taken


def _head(user: Caller, runs: Sequence[TrainingRun], tones: Sequence[int], asked: OverlayQuery) -> dict[str, Any]:
    views = training_views(list(runs), now=timezone.now())
    pinned = [{"environments": [reference_of(item.version) for item in trained_on(run)]} for run in runs]
    known = [run.config if has_role(user, run.owner, Role.READER) else shown_outside(run.config) for run in runs]
    named = [{"model": run.model_name, **own, **config} for run, own, config in zip(runs, pinned, known, strict=True)]
    return {
        "section": "training",
        "asked": asked,
        "runs": [
            {"row": run, "view": view, "tone": tone, "environments": own["environments"], "name": _name(run)}
            for run, view, tone, own in zip(runs, views, tones, pinned, strict=True)
        ],
        "settings": differing(named),
        "axes": AXES,
        "smoothing": SMOOTHING,
    }


def _name(run: TrainingRun) -> str:
    return run.name or run.model_name


def _charts(runs: Sequence[TrainingRun], tones: Sequence[int], asked: OverlayQuery) -> dict[str, Any]:
    curves = [_curves(run, tone, asked) for run, tone in zip(runs, tones, strict=True)]
    span = span_over(curves, asked.by, zoomed=bool(asked.zoom))
    if span is None:
        return {"charts": []}
    drawn = Drawn(span, asked.smooth, asked.scale == "log")
    charts = [chart for panel in OVERLAID if (chart := overlaid(panel, curves, drawn)) is not None]
    reward, others = charts[:1], charts[1:]
    words = WORDS[asked.by]
    return {
        "charts": [*reward, *evaluated_charts(curves, drawn), *others],
        "span": span,
        "places": SEPARATOR.join(f"Step {one}" if asked.by is Axis.STEP else words(one, 4) for one in drawn.grid),
    }


def _curves(run: TrainingRun, tone: int, asked: OverlayQuery) -> Curves:
    steps, places = steps_on(run, asked.by, asked.zoom)
    last = None if asked.last is None or not steps else steps[-1].step
    points = chart_evaluations(run, first=_first_evaluation(steps, asked), last=last) if steps else []
    return Curves(_name(run), tone, steps, places, points)


def _first_evaluation(steps: Sequence[StepMetrics], asked: OverlayQuery) -> int:
    """Return the step from which evaluations are shown: those before the first step belong to its beginning."""
    return steps[0].step if asked.first and steps[0].step > 1 else 0
