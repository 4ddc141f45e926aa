"""The small curves of rewards in lists, all on one scale."""

from __future__ import annotations

from collections.abc import Sequence

_EDGE = 8.0  # margin above and below in the 100 x 100 box, for the width of the line


def sparkline(rewards: Sequence[float]) -> str:
    """Return points of a polyline in a box of 100 x 100; "" for fewer than two.

    The vertical axis covers at least rewards from 0 to 1, so that curves can be compared and noise looks like noise.
    """
    if len(rewards) < 2:
        return ""
    low, high = min(0.0, *rewards), max(1.0, *rewards)
    step, height = 100 / (len(rewards) - 1), 100 - 2 * _EDGE
    points = ((step * at, _EDGE + height * (high - reward) / (high - low)) for at, reward in enumerate(rewards))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
