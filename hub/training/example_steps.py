"""One example through a training run: its rollouts at some of the steps that had it, evenly apart, as squares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from hub.evals.reward_shades import Shades
from hub.training.models import TrainingRollout, TrainingRun

MOST_STEPS = 16
MOST_ROLLOUTS = 16  # of a step
MOST_READ = 5000  # steps that are looked for


@dataclass(frozen=True)
class Attempt:
    """One rollout; no shade: it has no reward."""

    index: int
    reward: float | None
    shade: int | None


@dataclass(frozen=True)
class AtStep:
    """The example's rollouts at one step."""

    step: int
    attempts: tuple[Attempt, ...]


def example_over_steps(training: TrainingRun, row: TrainingRollout, step: int) -> list[AtStep]:
    """In order of the steps, the first, the last and `step`, that of the row, among them."""
    rows = TrainingRollout.objects.filter(
        step__training=training, environment=row.environment, example=row.example
    ).order_by("step__step", "index")
    there = list(rows.order_by("step__step").values_list("step__step", flat=True).distinct()[:MOST_READ])
    found = rows.filter(step__step__in=chosen(there, step))
    by_step: dict[int, list[tuple[int, float | None]]] = defaultdict(list)
    for number, index, reward in found.values_list("step__step", "index", "reward"):
        by_step[number].append((index, reward))
    rewards = [reward for attempts in by_step.values() for _, reward in attempts if reward is not None]
    shades = Shades(min([0.0, *rewards]), max([0.0, *rewards]))
    return [
        AtStep(
            number,
            tuple(Attempt(index, reward, shades.shade(reward)) for index, reward in attempts[:MOST_ROLLOUTS]),
        )
        for number, attempts in by_step.items()
    ]


def chosen(steps: Sequence[int], here: int) -> list[int]:
    """At most MOST_STEPS of them."""
    if len(steps) <= MOST_STEPS:
        return list(steps)
    last = MOST_STEPS - 2
    apart = {steps[place * (len(steps) - 1) // last] for place in range(last + 1)}
    return sorted(apart | {here})
