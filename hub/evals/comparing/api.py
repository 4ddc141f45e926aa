"""API of comparisons of evaluations: of two, and of up to eight as a matrix."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from envhub.protocol.evals.comparisons import (
    ComparisonMatrix,
    ComparisonView,
    ExamplePair,
    MatrixExample,
    MatrixPair,
    PairedDifference,
)
from pydantic import BaseModel, ConfigDict, Field
from rest_framework.decorators import api_view
from rest_framework.request import Request

from hub.accounts.permissions import check_read
from hub.core.http import answer, parse_query, validate
from hub.core.ids import AskedId, GivenId
from hub.core.requests.parameters import choice
from hub.evals.comparing import matrix
from hub.evals.comparing.matrix import FEWEST, MOST, MatrixRow, PairTest, narrowed
from hub.evals.comparing.paired import Difference, Pair
from hub.evals.comparing.sides import Compared, Sides, compare_evaluations, compare_many
from hub.evals.comparing.significance import p_value
from hub.evals.comparing.view import Order, ordered
from hub.evals.wire import evaluation_view

MOST_PAIRS = 1000


class PairsAsked(BaseModel):
    """Query parameters: which examples the response lists."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sort: Order = Order.BETTER
    limit: int = Field(default=50, ge=0, le=MOST_PAIRS)


@extend_schema(
    parameters=[
        choice("sort", Order, Order.BETTER),
        OpenApiParameter("limit", int, description=f"how many `pairs`, at most {MOST_PAIRS}"),
    ],
    responses=ComparisonView,
)
@api_view(["GET"])
def comparison(request: Request, evaluation_id: GivenId, other_id: UUID) -> HttpResponse:
    """Compare the evaluation `other_id` (B) with `evaluation_id` (A), paired by example.

    Returns the difference, its standard error and 95 % interval.
    """
    check_read(request)
    asked = parse_query(request, PairsAsked)
    return answer(comparison_view(compare_evaluations(request.user, evaluation_id, other_id), asked))


def comparison_view(compared: Compared, asked: PairsAsked) -> ComparisonView:
    """Return the wire form of a comparison, with the requested pairs."""
    found = compared.found
    return ComparisonView(
        a=evaluation_view(compared.a, inside=compared.a.owner_id in compared.inside),
        b=evaluation_view(compared.b, inside=compared.b.owner_id in compared.inside),
        reward=_difference(found.reward) if found.reward else None,
        metrics=tuple(_difference(row) for row in found.metrics),
        examples=len(found.pairs),
        better=found.better,
        worse=found.worse,
        only_a=found.only_a,
        only_b=found.only_b,
        other_row=found.other_row,
        pairs=tuple(_pair(pair) for pair in ordered(found.pairs, asked.sort)[: asked.limit]),
    )


def _difference(row: Difference) -> PairedDifference:
    return PairedDifference(
        name=row.name,
        a=row.a,
        b=row.b,
        mean=row.mean,
        std_error=row.std_error,
        low=row.low,
        high=row.high,
        count=row.count,
        is_clear=row.is_clear,
        p_value=p_value(row),
    )


def _pair(pair: Pair) -> ExamplePair:
    return ExamplePair(example=pair.example, a=pair.a, b=pair.b, difference=pair.difference)


class MatrixAsked(BaseModel):
    """Query parameters: which evaluations to compare, and which of their examples to list."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: tuple[AskedId, ...]
    sort: matrix.Order = matrix.Order.FLIPS
    only: matrix.Only = matrix.Only.ALL
    limit: int = Field(default=50, ge=0, le=MOST_PAIRS)
    page: int = Field(default=1, ge=1, lt=2**20)


@extend_schema(
    parameters=[
        OpenApiParameter("id", str, many=True, required=True, description=f"the evaluations, {FEWEST} to {MOST}"),
        choice("sort", matrix.Order, matrix.Order.FLIPS),
        OpenApiParameter("only", enum=[one.value for one in matrix.Only], description="which examples; default: all"),
        OpenApiParameter("limit", int, description=f"how many `rows`, at most {MOST_PAIRS}"),
        OpenApiParameter("page", int, description="which page of them, from 1; `next_page` has the next"),
    ],
    responses=ComparisonMatrix,
)
@api_view(["GET"])
def comparison_matrix(request: Request) -> HttpResponse:
    """Compare up to eight evaluations of one environment side by side.

    Returns each example's mean rewards, and for every pair the paired difference with its 95 % interval and p-value.
    """
    check_read(request)
    query = request.query_params
    ids = query.getlist("id") or [*query.getlist("a"), *query.getlist("b")]  # the page's URL names them `a` and `b`
    given = {name: value for name, value in query.dict().items() if name not in {"a", "b"}}
    asked = validate(MatrixAsked, given | {"id": ids})
    return answer(matrix_view(compare_many(request.user, asked.id), asked))


def matrix_view(sides: Sides, asked: MatrixAsked) -> ComparisonMatrix:
    """Return the wire form of a matrix, with the requested rows."""
    found = narrowed(sides.found.rows, asked.only, asked.sort)
    start = (asked.page - 1) * asked.limit
    more = asked.limit and start + asked.limit < len(found)
    return ComparisonMatrix(
        evaluations=tuple(evaluation_view(row, inside=row.owner_id in sides.inside) for row in sides.evaluations),
        pairs=tuple(_matrix_pair(test) for test in sides.found.tests),
        examples=len(sides.found.rows),
        found=len(found),
        alone=sides.found.alone,
        rows=tuple(_matrix_example(row) for row in found[start : start + asked.limit]),
        next_page=asked.page + 1 if more else None,
    )


def _matrix_pair(test: PairTest) -> MatrixPair:
    return MatrixPair(
        a=test.a,
        b=test.b,
        difference=_difference(test.found) if test.found else None,
        p_adjusted=test.adjusted,
        better=test.better,
        worse=test.worse,
        is_clear=test.is_clear,
    )


def _matrix_example(row: MatrixRow) -> MatrixExample:
    return MatrixExample(example=row.example, rewards=row.cells, broken=row.broken, fixed=row.fixed)
