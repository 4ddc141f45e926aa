"""Compares evaluations of one environment side by side: one row for each example that at least two of them have scored.

The first evaluation, A, is the baseline. An example is solved at a mean reward of at least 0.5. It is broken where A
solves it and another evaluation does not, and fixed where another evaluation solves it and A does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from string import ascii_uppercase

from hub.evals.comparing.paired import SAME, Difference, ExampleMeans, difference, same_row
from hub.evals.comparing.significance import holm, p_value
from hub.evals.statistics import PASS_THRESHOLD

FEWEST, MOST = 2, 8  # evaluations in a matrix
LETTERS = ascii_uppercase[:MOST]
_CHANCE = 0.05


class Order(StrEnum):
    """How the rows are ordered."""

    FLIPS = "flips"
    BETTER = "better"
    WORSE = "worse"
    EXAMPLE = "example"


class Only(StrEnum):
    """Which rows are kept."""

    ALL = ""
    REGRESSIONS = "regressions"
    IMPROVEMENTS = "improvements"
    FLIPS = "flips"


@dataclass(frozen=True)
class MatrixRow:
    """One example with the mean reward of each evaluation, None where an evaluation has not scored this same row."""

    example: int
    cells: tuple[float | None, ...]

    def difference(self, place: int) -> float | None:
        """Return that evaluation's mean minus A's, None unless both have one; differences due to rounding become 0."""
        first, cell = self.cells[0], self.cells[place]
        if first is None or cell is None:
            return None
        return cell - first if abs(cell - first) > SAME else 0.0

    @property
    def differences(self) -> list[float]:
        """The differences to A of all other evaluations that have one."""
        found = (self.difference(place) for place in range(1, len(self.cells)))
        return [one for one in found if one is not None]

    @property
    def broken(self) -> int:
        """How many evaluations fail this example although A solves it."""
        first = self.cells[0]
        if first is None or first < PASS_THRESHOLD:
            return 0
        return sum(cell is not None and cell < PASS_THRESHOLD for cell in self.cells[1:])

    @property
    def fixed(self) -> int:
        """How many evaluations solve this example although A does not."""
        first = self.cells[0]
        if first is None or first >= PASS_THRESHOLD:
            return 0
        return sum(cell is not None and cell >= PASS_THRESHOLD for cell in self.cells[1:])


@dataclass(frozen=True)
class PairTest:
    """The test of evaluation `b` against `a`, both given by position. `found` is None if no scored example is shared.

    p: the p-value of this pair alone; adjusted: corrected by Holm's method over all pairs shown.
    """

    a: int
    b: int
    found: Difference | None
    p: float | None
    adjusted: float | None
    better: int
    worse: int

    @property
    def name(self) -> str:
        """The pair as the table names it, for example "B − A"."""
        return f"{LETTERS[self.b]} − {LETTERS[self.a]}"

    @property
    def is_clear(self) -> bool:
        """Whether the difference remains significant after correcting for all pairs."""
        return self.adjusted is not None and self.adjusted < _CHANCE


@dataclass(frozen=True)
class Matrix:
    """`alone`: examples that only one evaluation has scored; `other_row`: cells left out because their row differs."""

    rows: tuple[MatrixRow, ...]
    tests: tuple[PairTest, ...]
    alone: int
    other_row: int


def matrix(sides: Sequence[Mapping[int, ExampleMeans]], hosted: Sequence[bool]) -> Matrix:
    """Build the matrix from each evaluation's means by example.

    hosted: which evaluations this hub ran, so that their rows are known as a whole (see hub.evals.comparing.paired).
    """
    rows: list[MatrixRow] = []
    alone = other_row = 0
    for example in sorted(set().union(*sides)):
        found = [side.get(example) for side in sides]
        cells = _cells(found, hosted)
        known = sum(cell is not None for cell in cells)
        other_row += sum(one is not None for one in found) - known
        if known >= FEWEST:
            rows.append(MatrixRow(example, cells))
        else:
            alone += 1
    return Matrix(tuple(rows), _tests(sides, hosted), alone, other_row)


def _cells(found: Sequence[ExampleMeans | None], hosted: Sequence[bool]) -> tuple[float | None, ...]:
    place, first = next((place, one) for place, one in enumerate(found) if one is not None)
    return tuple(
        one.reward if one is not None and same_row(first, one, not (hosted[place] and hosted[number])) else None
        for number, one in enumerate(found)
    )


def _tests(sides: Sequence[Mapping[int, ExampleMeans]], hosted: Sequence[bool]) -> tuple[PairTest, ...]:
    tests = [_test(sides, hosted, a, b) for a, b in combinations(range(len(sides)), 2)]
    adjusted = holm([test.p for test in tests])
    return tuple(
        PairTest(test.a, test.b, test.found, test.p, value, test.better, test.worse)
        for test, value in zip(tests, adjusted, strict=True)
    )


def _test(sides: Sequence[Mapping[int, ExampleMeans]], hosted: Sequence[bool], a: int, b: int) -> PairTest:
    """Pair the two directly: not through the table's cells, which are of the rows of the first that has an example."""
    unknown = not (hosted[a] and hosted[b])
    shared = [(sides[a][example], sides[b][example]) for example in sorted(sides[a].keys() & sides[b].keys())]
    pairs = [
        (one.reward, other.reward)
        for one, other in shared
        if one.reward is not None and other.reward is not None and same_row(one, other, unknown)
    ]
    found = difference("reward", pairs) if pairs else None
    better = sum(other - one > SAME for one, other in pairs)
    worse = sum(one - other > SAME for one, other in pairs)
    return PairTest(a, b, found, p_value(found) if found else None, None, better, worse)


def narrowed(rows: Sequence[MatrixRow], only: Only, order: Order) -> list[MatrixRow]:
    """Return the rows that `only` keeps, in the given order; ties are ordered by example."""
    found = [row for row in rows if _is_kept(row, only)]
    return found if order is Order.EXAMPLE else sorted(found, key=lambda row: (*_rank(row, order), row.example))


def _is_kept(row: MatrixRow, only: Only) -> bool:
    if only is Only.FLIPS:
        return bool(row.broken or row.fixed)
    if only is Only.REGRESSIONS:
        return any(one < 0 for one in row.differences)
    return only is Only.ALL or any(one > 0 for one in row.differences)


def _rank(row: MatrixRow, order: Order) -> tuple[float, ...]:
    differences = row.differences or [0.0]
    if order is Order.BETTER:
        return (-max(differences),)
    if order is Order.WORSE:
        return (min(differences),)
    return (not (row.broken or row.fixed), -max(abs(one) for one in differences))
