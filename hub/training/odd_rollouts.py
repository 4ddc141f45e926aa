"""The odd ones among a step's best rollouts. What they said is in their files alone: repetitions are not looked for."""

from __future__ import annotations

from dataclasses import dataclass

from hub.evals.reading.odd_shapes import Shape, reasons, usual_of
from hub.training.models import Step, TrainingRollout

MOST_READ = 1000
MOST_SHOWN = 20


@dataclass(frozen=True)
class OddRollout:
    """One to read, and why."""

    row: TrainingRollout
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class OddRollouts:
    """Those of the highest reward; `more` beside them. `partial`: only the step's first MOST_READ were looked at."""

    rows: tuple[OddRollout, ...]
    more: int
    partial: bool


def odd_rollouts(step: Step) -> OddRollouts:
    """Each environment's rollouts beside one another: what is usual in one is not in another."""
    rows = list(TrainingRollout.objects.filter(step=step).order_by("index")[: MOST_READ + 1])
    by_label: dict[str, list[tuple[TrainingRollout, Shape]]] = {}
    for row in rows[:MOST_READ]:
        if row.reward is not None:
            shape = Shape(row.reward, row.completion_tokens, row.turns, row.metrics)
            by_label.setdefault(row.environment, []).append((row, shape))
    found: list[OddRollout] = []
    for pairs in by_label.values():
        usual = usual_of([shape for _, shape in pairs])
        odd = ((row, reasons(shape, usual)) for row, shape in pairs) if usual else ()
        found += [OddRollout(row, tuple(why)) for row, why in odd if why]
    found.sort(key=lambda one: (-(one.row.reward or 0.0), one.row.index))
    return OddRollouts(tuple(found[:MOST_SHOWN]), max(0, len(found) - MOST_SHOWN), len(rows) > MOST_READ)
