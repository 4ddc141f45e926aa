"""How old the policy that sampled a group may be. Step s trains weights v(s-1): what they sample is on policy, 0."""

from __future__ import annotations

from workers.training.admission.candidate import Candidate


def staleness(version: int, step: int) -> int:
    """Optimiser steps between the policy that sampled and the one that `step` trains."""
    return step - 1 - version


def is_stale(candidate: Candidate, step: int, bound: int) -> bool:
    """Whether a group's oldest token is more than `bound` versions behind. A group is kept or dropped whole."""
    oldest = candidate.oldest_version
    return oldest is not None and staleness(oldest, step) > bound
