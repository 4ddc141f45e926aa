"""Shows one example through a training run: its rollouts as squares, at some evenly spaced steps that had it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hub.core.numbers import minus
from hub.evals.reward_shades import Shades
from hub.training.models import TrainingRollout, TrainingRun

Row = TypeVar("Row")
MOST_STEPS = 16
MOST_ROLLOUTS = 16  # per step
MOST_READ = 5000  # steps that are searched


@dataclass(frozen=True)
class Attempt:
    """One rollout; `shade` is None if it has no reward."""

    index: int
    reward: float | None
    shade: int | None

    @property
    def words(self) -> str:
        """The rollout and its reward in words."""
        return f"rollout {self.index}: " + ("no reward" if self.reward is None else minus(f"reward {self.reward:.3g}"))


@dataclass(frozen=True)
class AtStep:
    """The example's rollouts at one step, and how many `more` there are."""

    step: int
    attempts: tuple[Attempt, ...]
    more: int = 0


@dataclass(frozen=True)
class ExampleSteps:
    """The shown steps in order, of how many there are. `partial`: only the first MOST_READ were searched."""

    steps: tuple[AtStep, ...]
    of: int
    partial: bool

    @property
    def hidden(self) -> int:
        """The number of steps that are not shown."""
        return self.of - len(self.steps)


def example_over_steps(training: TrainingRun, row: TrainingRollout, step: int) -> ExampleSteps:
    """Return the chosen steps, among them the first, the last and the row's own `step`, which includes the row."""
    rows = TrainingRollout.objects.filter(
        step__training=training, environment=row.environment, example=row.example
    ).order_by("step__step", "index")
    there = list(rows.order_by("step__step").values_list("step__step", flat=True).distinct()[: MOST_READ + 1])
    partial, there = len(there) > MOST_READ, sorted({*there[:MOST_READ], step})
    found = rows.filter(step__step__in=chosen(there, step))
    by_step: dict[int, list[tuple[int, float | None]]] = defaultdict(list)
    for number, index, reward in found.values_list("step__step", "index", "reward"):
        by_step[number].append((index, reward))
    rewards = [reward for attempts in by_step.values() for _, reward in attempts if reward is not None]
    shades = Shades(min([0.0, *rewards]), max([0.0, *rewards]))
    steps = tuple(
        _at_step(number, attempts, shades, own=row.index if number == step else None)
        for number, attempts in by_step.items()
    )
    return ExampleSteps(steps, len(there), partial)


def _at_step(number: int, attempts: Sequence[tuple[int, float | None]], shades: Shades, own: int | None) -> AtStep:
    shown = with_own(attempts, MOST_ROLLOUTS, lambda one: one[0] == own)
    squares = tuple(Attempt(index, reward, shades.shade(reward)) for index, reward in shown)
    return AtStep(number, squares, len(attempts) - len(shown))


def with_own(rows: Sequence[Row], most: int, is_own: Callable[[Row], bool]) -> list[Row]:
    """Return the first `most` rows; if their own is further down, it takes the place of the last."""
    own = next((place for place, row in enumerate(rows) if is_own(row)), 0)
    return list(rows[:most]) if own < most else [*rows[: most - 1], rows[own]]


def chosen(steps: Sequence[int], here: int) -> list[int]:
    """Choose at most MOST_STEPS of the steps."""
    if len(steps) <= MOST_STEPS:
        return list(steps)
    last = MOST_STEPS - 2
    apart = {steps[place * (len(steps) - 1) // last] for place in range(last + 1)}
    return sorted(apart | {here})
