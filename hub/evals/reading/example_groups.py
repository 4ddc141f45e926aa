"""Groups rollouts by example, one page at a time, so that the cost of a page does not grow with the evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from django.db.models import Avg, Count, Max, Min
from django.http import HttpRequest

from hub.core.numbers import minus
from hub.core.pagination import whole_number
from hub.evals.models import Evaluation, ExampleScore, RolloutIndex
from hub.evals.queries import rollouts_of_examples
from hub.evals.reward_shades import Shades

GROUPS = 25  # examples per page
MOST_SQUARES = 64  # rollouts shown per example
MOST_SCANNED = 20_000  # rollouts searched for a page of mixed examples
_FIELDS = ("example", "rollout", "reward", "outcome", "failure_kind", "asked", "answered", "target")


@dataclass(frozen=True)
class Square:
    """One rollout: its shade (hub.evals.reward_shades), None without a reward; `words` do not depend on the viewer."""

    rollout: int
    shade: int | None
    words: str


@dataclass(frozen=True)
class ExampleGroup:
    """One example with its rollouts."""

    example: int
    asked: str
    answered: str  # by its first rollout that has an answer
    target: str
    squares: tuple[Square, ...]
    more: int  # rollouts that are not in `squares`
    mean: float | None


@dataclass(frozen=True)
class GroupPage:
    """A page of examples. `next` is the whole URL of the next page.

    searched: the example up to which a page of mixed examples has searched, as it may be short; None at the end.
    """

    groups: tuple[ExampleGroup, ...]
    next: str | None
    searched: int | None = None


def group_page(evaluation: Evaluation, request: HttpRequest, *, mixed: bool, shades: Shades) -> GroupPage:
    """Return the examples after `cursor`; with `mixed`, only those whose rewards differ.

    Raises Invalid for a cursor that is not a number.
    """
    after = whole_number(request, "cursor")
    rows = ExampleScore.objects.filter(evaluation=evaluation)
    if after is not None:
        rows = rows.filter(example__gt=after)
    window = _window(evaluation) if mixed else GROUPS
    found = list(rows.order_by("example").values_list("example", flat=True)[: window + 1])
    examples, end = found[:window], len(found) <= window
    last = examples[-1] if examples else None
    if mixed and examples:
        examples = _mixed(evaluation, examples[0], examples[-1])
        if len(examples) > GROUPS:
            examples, end = examples[:GROUPS], False
            last = examples[-1]
    groups = _groups(evaluation, examples, shades)
    following = None if end or last is None else _address(request, last)
    return GroupPage(groups, following, last if mixed and following else None)


def _window(evaluation: Evaluation) -> int:
    attempts = evaluation.config.get("rollouts_per_example")
    return max(GROUPS, MOST_SCANNED // max(1, attempts if isinstance(attempts, int) else 1))


def _mixed(evaluation: Evaluation, first: int, last: int) -> list[int]:
    """Return the examples in this range for which one rollout has a better reward than another."""
    rows = RolloutIndex.objects.filter(evaluation=evaluation, example__gte=first, example__lte=last)
    ranges = rows.order_by("example").values_list("example").annotate(low=Min("reward"), high=Max("reward"))
    return [example for example, low, high in ranges if low is not None and low != high][: GROUPS + 1]


def _groups(evaluation: Evaluation, examples: list[int], shades: Shades) -> tuple[ExampleGroup, ...]:
    counts = rollouts_of_examples(evaluation, examples).order_by("example").values_list("example")
    summed = {example: (count, mean) for example, count, mean in counts.annotate(Count("pk"), Avg("reward"))}
    rows = rollouts_of_examples(evaluation, examples).filter(rollout__lt=MOST_SQUARES).only(*_FIELDS)
    by_example = {example: list(found) for example, found in groupby(rows, key=lambda row: row.example)}
    return tuple(
        _group(example, by_example.get(example, []), *summed.get(example, (0, None)), shades) for example in examples
    )


def _group(example: int, rows: list[RolloutIndex], count: int, mean: float | None, shades: Shades) -> ExampleGroup:
    return ExampleGroup(
        example=example,
        asked=next((row.asked for row in rows if row.asked), ""),
        answered=next((row.answered for row in rows if row.answered), ""),
        target=next((row.target for row in rows if row.target), ""),
        squares=tuple(square(row, shades) for row in rows),
        more=max(0, count - len(rows)),
        mean=mean,
    )


def square(row: RolloutIndex, shades: Shades) -> Square:
    """Return a rollout as a square of its shade."""
    if row.reward is None:
        return Square(row.rollout, None, f"rollout {row.rollout}: {row.failure_kind or row.outcome}, no reward")
    return Square(row.rollout, shades.shade(row.reward), f"rollout {row.rollout}: reward {minus(f'{row.reward:.3g}')}")


def _address(request: HttpRequest, cursor: int) -> str:
    query = request.GET.copy()
    query["cursor"] = str(cursor)
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")
