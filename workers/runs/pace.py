"""How long a run will take, from how fast it went so far."""

from __future__ import annotations

from collections.abc import Callable

SOONEST_S = 5.0  # before that a few rollouts say little


class Pace:
    """Follows what is done. What was done before it looks for the first time, as of a resumed run, is no speed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._unit, self._began, self._before = "", 0.0, 0

    def left_s(self, done: int, total: int, unit: str) -> float | None:
        """Seconds until `total`; None while nobody knows."""
        now = self._clock()
        if total <= 0:
            return None
        if unit != self._unit:
            self._unit, self._began, self._before = unit, now, done
        elapsed, made = now - self._began, done - self._before
        if made <= 0 or elapsed < SOONEST_S:
            return None
        return elapsed / made * max(0, total - done)
