"""Decides whose waiting run comes next: the oldest run of the owner with the fewest slots of the queue, divided by the
owner's weight. Even if one owner has a thousand runs waiting, another owner's first run waits only for the next run to
end.

The cost does not grow with the number of waiting runs: owners are found by skipping through an index.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar
from uuid import UUID

from django.conf import settings
from django.db.models import Count, QuerySet
from envhub.protocol.runs import RunKind, RunState

from hub.accounts.models import Owner
from hub.accounts.quotas import own_running
from hub.runs.models import Run
from hub.runs.transitions import HELD

MOST_OWNERS = 20  # owners whose runs are considered for one answer
_HEADS = """
WITH RECURSIVE heads(id, owner_id) AS (
    SELECT * FROM (
        SELECT id, owner_id FROM runs_run WHERE queue = %(queue)s AND state = %(queued)s ORDER BY owner_id, id LIMIT 1
    ) AS first
    UNION ALL
    SELECT runs_run.id, runs_run.owner_id FROM heads JOIN runs_run ON runs_run.id = (
        SELECT id FROM runs_run WHERE queue = %(queue)s AND state = %(queued)s AND owner_id > heads.owner_id
        ORDER BY owner_id, id LIMIT 1
    )
)
SELECT id, owner_id FROM heads
"""


class Waiting(Protocol):
    """What the order needs to know of a run."""

    @property
    def pk(self) -> UUID: ...

    @property
    def owner_id(self) -> UUID: ...

    @property
    def parent_id(self) -> UUID | None: ...

    @property
    def kind(self) -> str: ...


One = TypeVar("One", bound=Waiting)


class Held(NamedTuple):
    """How many runs of each owner workers have, and the weights and limits of owners with one of their own."""

    by_queue: Counter[tuple[UUID, str]]
    by_kind: Counter[tuple[UUID, str]]
    weights: dict[UUID, float]
    own_limits: dict[UUID, int | None]

    def share(self, owner_id: UUID, queue: str, more: int = 0) -> float:
        """Return an owner's weighted share of a queue with `more` runs added; the owner with the least is next."""
        return (self.by_queue[owner_id, queue] + more) / self.weights.get(owner_id, 1.0)

    def is_full(self, owner_id: UUID, kind: str) -> bool:
        """Return whether the owner has as many runs of the kind as allowed."""
        limit = self.limit(owner_id, kind)
        return limit is not None and self.by_kind[owner_id, kind] >= limit

    def limit(self, owner_id: UUID, kind: str) -> int | None:
        """Return how many runs of a kind workers may have for the owner at once; None: no limit."""
        of_all: dict[RunKind, int] = settings.HUB.owner_running
        return self.own_limits[owner_id] if owner_id in self.own_limits else of_all.get(RunKind(kind))


def held_now() -> Held:
    """Count the runs that workers have now, which are at most as many as the workers' slots."""
    rows = Run.objects.filter(state__in=HELD).order_by().values_list("owner_id", "queue", "kind")
    given: dict[str, float] = settings.HUB.owner_weights
    weights = dict(Owner.objects.filter(slug__in=given).values_list("pk", "slug")) if given else {}
    own_weights = {owner_id: given[slug] for owner_id, slug in weights.items()}
    held = Held(Counter(), Counter(), own_weights, own_running())
    for owner_id, queue, kind, count in rows.annotate(Count("pk")):
        held.by_queue[owner_id, queue] += count
        held.by_kind[owner_id, kind] += count
    return held


def in_fair_order(runs: Iterable[One], queue: str, held: Held) -> list[One]:
    """Return the runs of a queue (given oldest first per owner) in the order in which free slots would take them.

    Parts come last. Runs that exceed their owner's limit are left out.
    """
    every = list(runs)
    own = _in_turn((run for run in every if run.parent_id is None), queue, held)
    return own + _in_turn((run for run in every if run.parent_id is not None), queue, held)


def _in_turn(runs: Iterable[One], queue: str, held: Held) -> list[One]:
    """Order runs so that each next one belongs to the owner with the smallest share."""
    lines: dict[UUID, deque[One]] = defaultdict(deque)
    for run in runs:
        if not held.is_full(run.owner_id, run.kind):
            lines[run.owner_id].append(run)
    heads = [(held.share(owner, queue), line[0].pk, owner) for owner, line in lines.items()]
    heapq.heapify(heads)
    order: list[One] = []
    taken: Counter[UUID] = Counter()
    while heads:
        owner = heads[0][-1]
        order.append(lines[owner].popleft())
        taken[owner] += 1
        if lines[owner]:
            heapq.heapreplace(heads, (held.share(owner, queue, taken[owner]), lines[owner][0].pk, owner))
        else:
            heapq.heappop(heads)
    return order


def next_runs(waiting: QuerySet[Run], queue: str, *, most: int, owners: int = MOST_OWNERS) -> list[Run]:
    """Return about the first `most` of the `waiting` runs of a queue in fair order, from the next `owners` owners."""
    held = held_now()
    heads = [head for head in _heads(queue) if not _all_full(head.owner_id, held)]
    heads.sort(key=lambda head: (held.share(head.owner_id, queue), head.pk))
    share = max(1, most // max(1, min(len(heads), MOST_OWNERS)))
    found: list[Run] = []
    seen = 0
    for head in heads:
        rows = list(waiting.filter(queue=queue, owner_id=head.owner_id).order_by("pk")[:share])
        found += rows
        seen += bool(rows)  # all of an owner's runs may be backing off, or fit only other workers
        if seen >= owners:
            break
    return in_fair_order(found, queue, held)[:most]


def _heads(queue: str) -> list[Run]:
    """Return the oldest waiting run of each owner, with only its owner loaded."""
    return list(Run.objects.raw(_HEADS, {"queue": queue, "queued": RunState.QUEUED.value}))


def _all_full(owner_id: UUID, held: Held) -> bool:
    return all(held.is_full(owner_id, kind.value) for kind in RunKind)
