"""When the endpoint is down, stop: do not burn every example. What failed meanwhile is held back, not stored.

A stored rollout is never run again on resume, so infrastructure failures count as results only once something else
has succeeded after them, or at the evaluation's end.
"""

from __future__ import annotations

from collections.abc import Sequence

from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.runs import FailureKind

from workers.rollouts.joining import is_infrastructure
from workers.runs.errors import RunFailed

LEAST = 8


class Streak:
    """Infrastructure failures in a row, over all rollouts in the order in which they end."""

    def __init__(self, concurrency: int) -> None:
        self._limit = max(LEAST, min(concurrency, 64))
        self._held: list[RolloutRecord] = []

    def pass_on(self, records: Sequence[RolloutRecord]) -> list[RolloutRecord]:
        """Records that may be stored now. Raises RunFailed when the streak is too long."""
        if all(is_infrastructure(record) for record in records):
            self._held.extend(records)
            if len(self._held) >= self._limit:
                raise self._stop()
            return []
        return [*self.release(), *records]

    def release(self) -> list[RolloutRecord]:
        """What was held back."""
        held, self._held = self._held, []
        return held

    def _stop(self) -> RunFailed:
        last = self._held[-1].failure
        reason = last.message if last is not None else "no reason was given"
        return RunFailed.because(
            FailureKind.INFRASTRUCTURE,
            "endpoint_unavailable",
            f"{len(self._held)} rollouts in a row failed by infrastructure. The last one: {reason}"[:2000],
            "Test the model's endpoint (hub model test). What is stored stays; the evaluation can be resumed.",
        )
