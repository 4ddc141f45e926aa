"""What the log says of failed rollouts: a reason when it is new, a known one in a step where many have it. Pure.

The report of every step has their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from envhub.protocol.rollouts import Outcome, RolloutRecord

MANY = 0.1  # of a step's rollouts of one environment


class FailureNotes:
    """Remembers what was said last of each environment."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def note(self, label: str, records: Sequence[RolloutRecord]) -> str:
        """The line for one environment's rollouts of a step; "" when there is nothing to say."""
        failed = [record for record in records if record.outcome is Outcome.FAILED]
        told = Counter(record.failure.message[:200] for record in failed if record.failure).most_common(1)
        most = told[0][0] if told else ""
        if not failed or (self._said.get(label) == most and len(failed) < MANY * len(records)):
            return ""
        self._said[label] = most
        why = f" (most: {most})" if most else ""
        return f"{len(failed)} of {len(records)} rollouts of {label} failed{why}; the others are trained on"
