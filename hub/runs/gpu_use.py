"""The history of how much a worker's GPUs are used: one mean a minute, of the last two hours. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from statistics import fmean
from typing import TypeAlias

from envhub.protocol.placing.gpus import GpuUse

APART_S = 60
KEPT = 120
History: TypeAlias = list[list[int]]  # Unix time, mean percent of the GPUs


def continued(history: Sequence[Sequence[int]], use: Sequence[GpuUse], now: datetime) -> History:
    """Return the history with a new measurement, or as it is if the last is newer than a minute or nothing is known."""
    percent, at = mean_percent(use), int(now.timestamp())
    kept = [list(point) for point in history]
    if percent is None or (kept and at - kept[-1][0] < APART_S):
        return kept
    return [*kept, [at, percent]][-KEPT:]


def mean_percent(use: Sequence[GpuUse]) -> int | None:
    """Return the mean of the GPUs whose driver says it."""
    known = [one.percent for one in use if one.percent is not None]
    return round(fmean(known)) if known else None


def polyline(history: Sequence[Sequence[int]], now: datetime) -> str:
    """Return the history as points in a box of 100 x 100: the last two hours, 0 to 100 percent; "" for one point."""
    begin = now.timestamp() - KEPT * APART_S
    shown = [(at, percent) for at, percent in history if at >= begin]
    if len(shown) < 2:
        return ""
    return " ".join(f"{100 * (at - begin) / (KEPT * APART_S):.1f},{100 - percent}" for at, percent in shown)
