"""Finds scores that moved: an evaluation that clearly differs from the previous one of its model, measured alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from envhub.protocol.evals.evaluations import MetricSummary
from envhub.protocol.evals.measured import measured

from hub.evals.boards import examples_of
from hub.evals.comparing.paired import SAME, equal_is_clear
from hub.evals.models import Evaluation
from hub.evals.wire import evaluation_summary, scored_examples
from hub.registry.cards import MOST_MOVES, Move

LOOKED_AT = 12  # the newest evaluations of an environment
_CLEAR = 1.959964  # two-sided, 5 %


class Slim(NamedTuple):
    """The columns that a card reads of every evaluation."""

    pk: UUID
    board: str
    version_id: UUID | None
    model_name: str


def pairs_of(slim: Sequence[Slim]) -> list[tuple[UUID, UUID]]:
    """Pair each of the newest evaluations with the previous one of its model.

    Both `slim` and the result: newest first.
    """
    found = []
    for place, row in enumerate(slim[:LOOKED_AT]):
        before = next((older.pk for older in slim[place + 1 :] if older.model_name == row.model_name), None)
        if before is not None:
            found.append((row.pk, before))
    return found


def moves(pairs: Iterable[tuple[UUID, UUID]], rows: Mapping[UUID, Evaluation], best: UUID | None) -> tuple[Move, ...]:
    """Return the pairs that clearly differ, newest first. Versions may differ; settings and examples may not."""
    found = list(_moves(pairs, rows, best))
    return tuple(found[:MOST_MOVES])


def _moves(pairs: Iterable[tuple[UUID, UUID]], rows: Mapping[UUID, Evaluation], best: UUID | None) -> Iterator[Move]:
    for after, before in ((rows[new], rows[old]) for new, old in pairs if new in rows and old in rows):
        was, now = evaluation_summary(before).reward, evaluation_summary(after).reward
        examples = min(scored_examples(before), scored_examples(after))
        if was and now and _alike(before, after) and _differ(was, now, examples):
            yield Move(
                evaluation=after.pk,
                since=before.pk,
                model=after.model_name,
                before=was.mean,
                after=now.mean,
                at=after.finished_at or after.created_at,
                best=after.pk == best,
            )


def _alike(a: Evaluation, b: Evaluation) -> bool:
    same = [(row.config["split"], examples_of(row), measured(row.config)) for row in (a, b)]
    return same[0] == same[1]


def _differ(was: MetricSummary, now: MetricSummary, examples: int) -> bool:
    """Return whether two independent means differ at the 5 % level. A paired test would have to read all examples.

    If all examples agree before and after, both errors are 0, which says nothing about the next example. All
    differences are then equal, and a sign test over the examples decides.
    """
    if was.std_error is None or now.std_error is None:
        return False
    difference, error = abs(now.mean - was.mean), math.hypot(was.std_error, now.std_error)
    if error <= SAME:
        return difference > SAME and equal_is_clear(examples)
    return difference > _CLEAR * error
