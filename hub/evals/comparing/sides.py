"""Loads stored evaluations and compares them, for the page and the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from hub.accounts.queries import Caller, inside_owners
from hub.core.errors import Invalid
from hub.core.ids import GivenId
from hub.evals.comparing.matrix import FEWEST, MOST, Matrix, matrix
from hub.evals.comparing.paired import Comparison, ExampleMeans, compare, example_means
from hub.evals.models import Evaluation
from hub.evals.queries import MOST_COMPARED, example_tallies, get_evaluations
from hub.evals.statistics import Aggregate

MOST_TOGETHER = 2 * MOST_COMPARED  # examples of all evaluations in a matrix together


@dataclass(frozen=True)
class Compared:
    """Evaluation `b` compared with `a`. inside: as in Sides."""

    a: Evaluation
    b: Evaluation
    found: Comparison
    inside: frozenset[UUID]


@dataclass(frozen=True)
class Sides:
    """The evaluations of a matrix, A first; if there are exactly two, `two` compares B with A including metrics.

    examples: how many each has scored. inside: of these owners the viewer sees all settings.
    """

    evaluations: tuple[Evaluation, ...]
    found: Matrix
    two: Comparison | None
    examples: tuple[int, ...] = ()
    inside: frozenset[UUID] = frozenset()


def compare_evaluations(user: Caller, a: GivenId, b: GivenId) -> Compared:
    """Compare two evaluations.

    Raises NotFound if the user may not see one, Invalid for different environments or too many examples.
    """
    first, second = get_evaluations(user, [a, b])
    check_environment([first, second])
    found = _compared(first, second, _means(first), _means(second))
    return Compared(first, second, found, inside_owners(user, [first, second]))


def compare_many(user: Caller, ids: Sequence[GivenId]) -> Sides:
    """Compare 2 to 8 evaluations. Raises what compare_evaluations raises, and Invalid for another number of them."""
    rows = get_compared(user, ids)
    return replace(compare_rows(rows), inside=inside_owners(user, rows))


def compare_rows(found: Sequence[Evaluation]) -> Sides:
    """Compare evaluations of one environment as a matrix. Raises Invalid for too many examples."""
    means, read = [], 0
    for evaluation in found:
        means.append(_means(evaluation))
        read += len(means[-1])
        if read > MOST_TOGETHER:
            raise Invalid(
                f"these evaluations have more than {MOST_TOGETHER} examples in total, too many for a page",
                hint="compare fewer of them",
            )
    two = _compared(found[0], found[1], means[0], means[1]) if len(found) == FEWEST else None
    hosted = [evaluation.is_hosted for evaluation in found]
    return Sides(tuple(found), matrix(means, hosted), two, tuple(map(len, means)))


def get_compared(user: Caller, ids: Sequence[GivenId]) -> list[Evaluation]:
    """Return the evaluations without repetitions, all of one environment. Raises NotFound, Invalid."""
    found = list({row.pk: row for row in get_evaluations(user, ids[: MOST + 1])}.values())
    if not FEWEST <= len(found) <= MOST:
        raise Invalid(f"{FEWEST} to {MOST} different evaluations can be compared at once", hint="choose that many")
    check_environment(found)
    return found


def check_environment(found: Sequence[Evaluation]) -> None:
    """Raises Invalid unless all evaluations are of the same environment."""
    if len({row.environment_id for row in found}) > 1:
        raise Invalid(
            "these evaluations belong to different environments", hint="compare evaluations of the same environment"
        )


def _compared(
    a: Evaluation, b: Evaluation, means_a: Mapping[int, ExampleMeans], means_b: Mapping[int, ExampleMeans]
) -> Comparison:
    return compare(means_a, means_b, by_content=not (a.is_hosted and b.is_hosted))


def _means(evaluation: Evaluation) -> dict[int, ExampleMeans]:
    return example_means(example_tallies(evaluation), Aggregate.model_validate(evaluation.aggregate))
