"""The sampling temperature of a step: fixed, or moving by `temp_scheduler`. Pure."""

from __future__ import annotations

import math

from envhub.protocol.training_environment import TrainingSampling


def temperature_at(sampling: TrainingSampling, step: int, max_steps: int) -> float:
    """Of rollouts that are begun for `step` (from 1)."""
    schedule = sampling.temp_scheduler
    if schedule is None:
        return sampling.temperature or 1.0
    total = schedule.total_steps or max_steps
    share = min(1.0, (step - 1) / max(1, total - 1))
    if schedule.type == "cosine":
        share = (1 - math.cos(math.pi * share)) / 2
    return schedule.start_temperature + share * (schedule.end_temperature - schedule.start_temperature)
