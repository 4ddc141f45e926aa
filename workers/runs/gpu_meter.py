"""Counts GPU seconds of an attempt whose GPUs come and go."""

from __future__ import annotations

import time
from collections.abc import Callable


class GpuMeter:
    """GPUs that are held now, and their seconds so far."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.held = 0
        self._clock, self._since, self._seconds = clock, clock(), 0.0

    def hold(self, count: int) -> None:
        """Hold so many GPUs from now on."""
        now = self._clock()
        self._seconds += self.held * (now - self._since)
        self._since, self.held = now, count

    def seconds(self) -> float:
        """Return the GPU seconds so far."""
        return self._seconds + self.held * (self._clock() - self._since)
