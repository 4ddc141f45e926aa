"""Finds odd ones among a step's best rollouts."""

from __future__ import annotations

from dataclasses import dataclass

from hub.evals.reading.odd_shapes import Shape, reasons, usual_of
from hub.training.models import Step, TrainingRollout

MOST_READ = 1000
MOST_SHOWN = 20


@dataclass(frozen=True)
class OddRollout:
    """A rollout worth reading, and why."""

    row: TrainingRollout
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class OddRollouts:
    """The odd rollouts with the highest rewards, and how many `more`. `partial`: only the first MOST_READ were read."""

    rows: tuple[OddRollout, ...]
    more: int
    partial: bool


def odd_rollouts(step: Step) -> OddRollouts:
    """Find odd rollouts, separately for each environment, because what is usual differs between them."""
    rows = list(TrainingRollout.objects.filter(step=step).order_by("index")[: MOST_READ + 1])
    by_label: dict[str, list[tuple[TrainingRollout, Shape]]] = {}
    for row in rows[:MOST_READ]:
        if row.reward is not None:
            shape = Shape(row.reward, row.completion_tokens, row.turns, row.metrics, row.answered)
            by_label.setdefault(row.environment, []).append((row, shape))
    found: list[OddRollout] = []
    for pairs in by_label.values():
        usual = usual_of([shape for _, shape in pairs])
        odd = ((row, reasons(shape, usual)) for row, shape in pairs) if usual else ()
        found += [OddRollout(row, tuple(why)) for row, why in odd if why]
    found.sort(key=lambda one: (-(one.row.reward or 0.0), one.row.index))
    return OddRollouts(tuple(found[:MOST_SHOWN]), max(0, len(found) - MOST_SHOWN), len(rows) > MOST_READ)
