"""How long runs last, and when one that waits may start."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import F
from envhub.protocol.runs import RunState

from hub.runs.models import Run, RunPace

LEAST_RUNS = 3  # before anything is estimated
NEWEST = 0.1  # the weight of a run that has just ended


def note_pace(run: Run) -> None:
    """A run has ended. Those that were cancelled, and parts, say nothing of how long others will last."""
    if run.started_at is None or run.finished_at is None or run.state == RunState.CANCELLED or run.parent_id:
        return
    seconds = (run.finished_at - run.started_at).total_seconds()
    row, _ = RunPace.objects.get_or_create(kind=run.kind)
    weight = max(NEWEST, 1 / (row.runs + 1))
    mean = F("seconds") * (1 - weight) + seconds * weight
    RunPace.objects.filter(kind=run.kind).update(seconds=mean, runs=F("runs") + 1)


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
