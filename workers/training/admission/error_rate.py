"""When an environment fails too often, the run pauses and says so, instead of training on the lucky rest."""

from __future__ import annotations

from collections import deque


class ErrorRate:
    """Failed rollouts of one environment over its last `window` batches. One failing batch is weather, five are not."""

    def __init__(self, *, window: int = 5, limit: float = 0.5) -> None:
        self._batches: deque[tuple[int, int]] = deque(maxlen=window)
        self._limit = limit

    def note_batch(self, failed: int, rollouts: int) -> None:
        """Note what was sampled of the environment for a batch; a batch without any of its rollouts does not count."""
        if rollouts:
            self._batches.append((failed, rollouts))

    @property
    def rate(self) -> float:
        """Failed share over the window."""
        rollouts = sum(count for _, count in self._batches)
        return sum(failed for failed, _ in self._batches) / rollouts if rollouts else 0.0

    @property
    def too_high(self) -> bool:
        """Whether the window is full and more than `limit` of it failed."""
        return len(self._batches) == self._batches.maxlen and self.rate > self._limit
