"""Keyset pagination of rollouts in each sort order: the cost of a page does not grow with the evaluation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum

from django.db.models import Q, QuerySet
from django.http import HttpRequest

from hub.core.errors import Invalid
from hub.core.pagination import read_limit
from hub.evals.models import RolloutIndex

Rows = QuerySet[RolloutIndex]


class Sort(StrEnum):
    """How a list of rollouts is ordered. By reward, rollouts without one come last."""

    NEWEST = "newest"
    REWARD = "reward"
    REWARD_DESC = "-reward"
    EXAMPLE = "example"


def rollout_page(rows: Rows, request: HttpRequest) -> tuple[list[RolloutIndex], str | None]:
    """Return the page that `sort`, `limit` and `cursor` of the query name, and the next page's URL. Raises Invalid."""
    limit = read_limit(request)
    raw = request.GET.get("sort", Sort.NEWEST.value)
    try:
        sort = Sort(raw)
    except ValueError as error:
        raise Invalid(f"sort is one of {', '.join(Sort)}", fields={"sort": raw[:100]}) from error
    page = first_rows(rows, sort, request.GET.get("cursor", ""), limit + 1)
    if len(page) <= limit:
        return page, None
    query = request.GET.copy()
    query["cursor"] = cursor_of(page[limit - 1], sort)
    return page[:limit], request.build_absolute_uri(f"{request.path}?{query.urlencode()}")


def first_rows(rows: Rows, sort: Sort, cursor: str, count: int) -> list[RolloutIndex]:
    """Return the first `count` rows after `cursor` in the given order."""
    page: list[RolloutIndex] = []
    for part in _parts(rows, sort, cursor):
        page += _newest(part, count) if sort is Sort.NEWEST else part[: count - len(page)]
        if len(page) >= count:
            break
    return page


def _newest(rows: Rows, count: int) -> list[RolloutIndex]:
    """Return the first rows, found by keys alone, so that Postgres uses the index of an evaluation's rollouts.

    If whole rows are selected and the evaluation has a tenth of the table, Postgres prefers to walk the table from its
    end until it has found enough rows: past everything that was added later, which may be millions.
    """
    keys = list(rows.values_list("pk", flat=True)[:count])
    return list(rows.filter(pk__in=keys))


def cursor_of(row: RolloutIndex, sort: Sort) -> str:
    """Return the cursor of `row`: the next page starts after it."""
    if sort is Sort.NEWEST:
        return str(row.pk)
    if sort is Sort.EXAMPLE:
        return f"{row.example},{row.rollout}"
    return f"{'' if row.reward is None else repr(row.reward)},{row.pk}"


def position(row: RolloutIndex, sort: Sort) -> tuple[float, ...]:
    """Return the key by which a list in this order sorts `row`."""
    if sort is Sort.NEWEST:
        return (-row.pk,)
    if sort is Sort.EXAMPLE:
        return row.example, row.rollout
    if row.reward is None:
        return 1, 0.0, row.pk
    sign = -1 if sort is Sort.REWARD_DESC else 1
    return 0, sign * row.reward, sign * row.pk


def _parts(rows: Rows, sort: Sort, cursor: str) -> Iterator[Rows]:
    """Yield querysets that concatenate to the list: one, or the scored and then the unscored rollouts."""
    try:
        if sort is Sort.NEWEST:
            yield (rows.filter(pk__lt=int(cursor)) if cursor else rows).order_by("-pk")
        elif sort is Sort.EXAMPLE:
            yield _by_example(rows, cursor)
        else:
            yield from _by_reward(rows, sort, cursor)
    except (ValueError, OverflowError) as error:
        raise Invalid("the cursor is not one of this list", fields={"cursor": cursor[:100]}) from error


def _by_example(rows: Rows, cursor: str) -> Rows:
    if cursor:
        example, rollout = map(int, cursor.split(","))
        # example >= e lets the index scan start there; the OR alone would not
        rows = rows.filter(example__gte=example).filter(Q(example__gt=example) | Q(rollout__gt=rollout))
    return rows.order_by("example", "rollout")


def _by_reward(rows: Rows, sort: Sort, cursor: str) -> Iterator[Rows]:
    text, _, key = cursor.partition(",")
    scored = rows.filter(reward__isnull=False)
    descending = sort is Sort.REWARD_DESC
    if text:
        reward = float(text)
        if not math.isfinite(reward):
            raise ValueError(text)
        yield from _beyond(scored, reward, int(key), descending=descending)
    elif not cursor:
        yield _ordered(scored, descending=descending)
    unscored = rows.filter(reward__isnull=True)
    # All rewards here are null, but ordering by the column lets Postgres walk the index of this order.
    yield (unscored.filter(pk__gt=int(key)) if cursor and not text else unscored).order_by("reward", "pk")


def _beyond(scored: Rows, reward: float, pk: int, *, descending: bool) -> Iterator[Rows]:
    """Yield what comes after (reward, pk): the rows with the same reward, which may be half of all, then the others.

    Each part is one range of the index; a single OR would filter all rows with that reward.
    """
    alike, others = {"pk__lt": pk}, {"reward__lt": reward}
    if not descending:
        alike, others = {"pk__gt": pk}, {"reward__gt": reward}
    for part in (scored.filter(reward=reward, **alike), scored.filter(**others)):
        yield _ordered(part, descending=descending)


def _ordered(rows: Rows, *, descending: bool) -> Rows:
    return rows.order_by("-reward", "-pk") if descending else rows.order_by("reward", "pk")


def rows_before(rows: Rows, sort: Sort, row: RolloutIndex, count: int) -> list[RolloutIndex]:
    """Return the last `count` rows before `row`, in the given order."""
    nearest: list[RolloutIndex] = []
    for part in _before(rows, sort, row):
        nearest += part[: count - len(nearest)]
        if len(nearest) >= count:
            break
    return nearest[::-1]


def _before(rows: Rows, sort: Sort, row: RolloutIndex) -> Iterator[Rows]:
    """Yield querysets of the rows before `row`, nearest first."""
    if sort is Sort.NEWEST:
        yield rows.filter(pk__gt=row.pk).order_by("pk")
        return
    if sort is Sort.EXAMPLE:
        earlier = rows.filter(example__lte=row.example)
        earlier = earlier.filter(Q(example__lt=row.example) | Q(rollout__lt=row.rollout))
        yield earlier.order_by("-example", "-rollout")
        return
    scored = rows.filter(reward__isnull=False)
    descending = sort is Sort.REWARD
    if row.reward is None:
        yield rows.filter(reward__isnull=True, pk__lt=row.pk).order_by("-reward", "-pk")
        yield _ordered(scored, descending=descending)
    else:
        yield from _beyond(scored, row.reward, row.pk, descending=descending)
