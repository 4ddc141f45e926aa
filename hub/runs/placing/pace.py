"""How long runs last, and when one that waits may start."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import F, FloatField, Value
from django.db.models.functions import Cast, Greatest
from envhub.protocol.runs import RunState

from hub.runs.models import Run, RunPace

LEAST_RUNS = 3  # before anything is estimated
NEWEST = 0.1  # the weight of a run that has just ended


def note_pace(run: Run) -> None:
    """A run has ended. Those that were cancelled, and parts, say nothing of how long others will last."""
    if run.started_at is None or run.finished_at is None or run.state == RunState.CANCELLED or run.parent_id:
        return
    seconds = (run.finished_at - run.started_at).total_seconds()
    weight = Greatest(Value(NEWEST), Value(1.0) / Cast(F("runs") + 1, FloatField()), output_field=FloatField())
    mean = F("seconds") + (Value(seconds) - F("seconds")) * weight
    if RunPace.objects.filter(kind=run.kind).update(seconds=mean, runs=F("runs") + 1) == 0:
        RunPace.objects.bulk_create([RunPace(kind=run.kind, seconds=seconds, runs=1)], ignore_conflicts=True)


def seconds_of(kinds: Iterable[str]) -> dict[str, float]:
    """How long a run of each kind lasts on average; kinds of which too little is known are left out."""
    rows = RunPace.objects.filter(kind__in=list(kinds), runs__gte=LEAST_RUNS)
    return dict(rows.values_list("kind", "seconds"))


def until_start(ahead: int, slots: int, seconds: float) -> float:
    """Seconds until the run behind `ahead` others has one of `slots`, which each come free every `seconds`."""
    return (ahead + 1) * seconds / max(1, slots)


def roughly(seconds: float) -> str:
    """`about 4 min`."""
    if seconds < 45:
        return "less than a minute"
    minutes = round(seconds / 60)
    return f"about {minutes} min" if minutes < 90 else f"about {round(seconds / 3600)} h"
