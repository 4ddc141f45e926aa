"""Reads stored evaluations and compares them: what the page and the API both show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hub.accounts.queries import Caller
from hub.core.errors import Invalid
from hub.core.ids import GivenId
from hub.evals.comparing.matrix import FEWEST, MOST, Matrix, matrix
from hub.evals.comparing.paired import Comparison, ExampleMeans, compare, example_means
from hub.evals.models import Evaluation
from hub.evals.queries import MOST_COMPARED, example_tallies, get_evaluations
from hub.evals.statistics import Aggregate

MOST_TOGETHER = 2 * MOST_COMPARED  # examples of all evaluations of a matrix


@dataclass(frozen=True)
class Compared:
    """Evaluation `b` against `a`."""

    a: Evaluation
    b: Evaluation
    found: Comparison


@dataclass(frozen=True)
class Sides:
    """The evaluations of a matrix, A first. `two`: B against A with its metrics, where there are just two."""

    evaluations: tuple[Evaluation, ...]
    found: Matrix
    two: Comparison | None


def compare_evaluations(user: Caller, a: GivenId, b: GivenId) -> Compared:
    """Raises NotFound for what the user may not see, Invalid for two environments or too many examples."""
    first, second = get_evaluations(user, [a, b])
    check_environment([first, second])
    return Compared(first, second, _compared(first, second, _means(first), _means(second)))


def compare_many(user: Caller, ids: Sequence[GivenId]) -> Sides:
    """Raises what compare_evaluations does, and Invalid for fewer than 2 or more than 8."""
    return compare_rows(get_compared(user, ids))


def compare_rows(found: Sequence[Evaluation]) -> Sides:
    """Evaluations of one environment as a matrix. Raises Invalid for too many examples."""
    means, read = [], 0
    for evaluation in found:
        means.append(_means(evaluation))
        read += len(means[-1])
        if read > MOST_TOGETHER:
            raise Invalid(
                f"these evaluations have more than {MOST_TOGETHER} examples together, too many for a page",
                hint="compare fewer of them",
            )
    two = _compared(found[0], found[1], means[0], means[1]) if len(found) == FEWEST else None
    return Sides(tuple(found), matrix(means, [evaluation.is_hosted for evaluation in found]), two)


def get_compared(user: Caller, ids: Sequence[GivenId]) -> list[Evaluation]:
    """Evaluations of one environment, each once. Raises NotFound, Invalid."""
    found = list({row.pk: row for row in get_evaluations(user, ids[: MOST + 1])}.values())
    if not FEWEST <= len(found) <= MOST:
        raise Invalid(f"{FEWEST} to {MOST} different evaluations are compared at once", hint="choose as many")
    check_environment(found)
    return found


def check_environment(found: Sequence[Evaluation]) -> None:
    """Raises Invalid unless they are all of one."""
    if len({row.environment_id for row in found}) > 1:
        raise Invalid("these evaluations are of two environments", hint="compare evaluations of the same environment")


def _compared(
    a: Evaluation, b: Evaluation, means_a: Mapping[int, ExampleMeans], means_b: Mapping[int, ExampleMeans]
) -> Comparison:
    return compare(means_a, means_b, by_content=not (a.is_hosted and b.is_hosted))


def _means(evaluation: Evaluation) -> dict[int, ExampleMeans]:
    return example_means(example_tallies(evaluation), Aggregate.model_validate(evaluation.aggregate))
