"""Groups a step's rollouts by example, a bounded number at a time, whatever the size of the step or of the run.

A group is what the advantage compares: the rollouts of one example. Those of a group have consecutive indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import groupby

from django.http import HttpRequest
from envhub.protocol.training.runs import TrainingRolloutRow

from hub.core.numbers import minus
from hub.core.pagination import whole_number
from hub.evals.reading.example_groups import GROUPS, MOST_SQUARES, Square
from hub.evals.reward_shades import Shades
from hub.training.models import Step, TrainingRollout, TrainingRun
from hub.training.rollout_filter import TrainingRolloutFilter

MOST_SCANNED = 5000  # rollouts read for a page
EXAMPLES, MIXED = "examples", "mixed"
GROUPED = ((EXAMPLES, "By example"), (MIXED, "Mixed results only"))  # ways of showing a step by example


@dataclass(frozen=True, slots=True)
class _Row:
    """The columns that are read of each rollout."""

    index: int
    group: str
    environment: str
    example: int
    reward: float | None
    outcome: str
    failure_kind: str
    admitted: bool
    dropped: str


_COLUMNS = [field.name for field in fields(_Row)]


@dataclass(frozen=True)
class RolloutGroup:
    """The rollouts of one example. The texts are those of its first scored rollout, which is `first`."""

    first: int
    environment: str
    example: int
    asked: str
    answered: str
    target: str
    squares: tuple[Square, ...]
    more: int  # rollouts that are not in `squares`
    mean: float | None
    dropped: str  # why none of them is in the batch; "" if one is


@dataclass(frozen=True)
class GroupPage:
    """A page of groups. `next` is the whole URL of the next page; `has_text`: whether texts are stored."""

    groups: tuple[RolloutGroup, ...]
    next: str | None

    @property
    def has_text(self) -> bool:
        return any(group.asked or group.answered or group.target for group in self.groups)


def group_page(
    training: TrainingRun,
    step: Step,
    wanted: TrainingRolloutFilter,
    request: HttpRequest,
    *,
    mixed: bool,
    shades: Shades,
) -> GroupPage:
    """Return the groups after `after` with a rollout that passes the filter; with `mixed`, whose rewards differ.

    Raises Invalid.
    """
    after = whole_number(request, "after")
    rows = TrainingRollout.objects.filter(step=step, index__gt=-1 if after is None else after)
    if wanted.environment:
        rows = rows.filter(environment=wanted.environment)
    scanned = [_Row(*row) for row in rows.order_by("index").values_list(*_COLUMNS)[: MOST_SCANNED + 1]]
    unread = len(scanned) > MOST_SCANNED
    groups = [list(found) for _, found in groupby(scanned[:MOST_SCANNED], key=lambda row: row.group)]
    if unread and len(groups) > 1:
        groups.pop()  # it may go on
    kept = [group for group in groups if not mixed or _differ(group)]
    if kept and wanted.given(environment=""):
        matching = wanted.select(training, step).filter(index__gte=kept[0][0].index, index__lte=kept[-1][-1].index)
        named = set(matching.values_list("group", flat=True))
        kept = [group for group in kept if group[0].group in named]
    shown = kept[:GROUPS]
    last = shown if len(kept) > GROUPS else groups if unread else []
    following = _address(request, step, last[-1][-1].index) if last else None
    return GroupPage(_groups(step, shown, shades), following)


def _differ(group: Sequence[_Row]) -> bool:
    return len({row.reward for row in group if row.reward is not None}) > 1


def _groups(step: Step, groups: Sequence[Sequence[_Row]], shades: Shades) -> tuple[RolloutGroup, ...]:
    firsts = [next((row for row in group if row.reward is not None), group[0]) for group in groups]
    rows = TrainingRollout.objects.filter(step=step, index__in=[row.index for row in firsts])
    texts = {index: said for index, *said in rows.values_list("index", "asked", "answered", "target")}
    return tuple(
        _group(first, group, texts.get(first.index, ["", "", ""]), shades)
        for first, group in zip(firsts, groups, strict=True)
    )


def _group(first: _Row, rows: Sequence[_Row], texts: Sequence[str], shades: Shades) -> RolloutGroup:
    asked, answered, target = texts
    rewards = [row.reward for row in rows if row.reward is not None]
    return RolloutGroup(
        first=first.index,
        environment=first.environment,
        example=first.example,
        asked=asked,
        answered=answered,
        target=target,
        squares=tuple(square(row, shades) for row in rows[:MOST_SQUARES]),
        more=max(0, len(rows) - MOST_SQUARES),
        mean=sum(rewards) / len(rewards) if rewards else None,
        dropped="" if any(row.admitted for row in rows) else next((row.dropped for row in rows if row.dropped), ""),
    )


def square(row: _Row | TrainingRolloutRow, shades: Shades) -> Square:
    """Return a rollout as a square of its shade."""
    if row.reward is None:
        return Square(row.index, None, f"rollout {row.index}: {row.failure_kind or row.outcome}, no reward")
    return Square(row.index, shades.shade(row.reward), f"rollout {row.index}: reward {minus(f'{row.reward:.3g}')}")


def _address(request: HttpRequest, step: Step, after: int) -> str:
    query = request.GET.copy()
    query["step"], query["after"] = str(step.step), str(after)
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")
