"""Failed rollouts that failed alike: how many, and one of them to look at. A bounded look at each kind."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from envhub.protocol.runs import FailureKind

from hub.evals.models import Evaluation, RolloutIndex

MOST_READ = 300  # failures of one kind
MOST_SHOWN = 10  # clusters
_VARYING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+(?:\.\d+)?", re.IGNORECASE)  # addresses, ids, numbers


@dataclass
class Cluster:
    """Failures of one kind whose messages differ in numbers and ids alone; the newest stands for them."""

    kind: str
    message: str
    example: int
    rollout: int
    count: int = 0


@dataclass(frozen=True)
class Clusters:
    """The largest first. `partial`: of some kind only the newest MOST_READ were looked at."""

    rows: tuple[Cluster, ...]
    more: int  # clusters that are not shown
    partial: bool


def failure_clusters(evaluation: Evaluation, kinds: Iterable[str]) -> Clusters:
    """Clusters of the failures of these kinds (what is none is skipped): one query each."""
    found: dict[tuple[str, str], Cluster] = {}
    partial = False
    for kind in sorted(set(kinds) & set(FailureKind)):
        rows = RolloutIndex.objects.filter(evaluation=evaluation, failure_kind=kind).exclude(failure_kind="")
        read = list(rows.order_by("-pk").values_list("failure_message", "example", "rollout")[: MOST_READ + 1])
        partial |= len(read) > MOST_READ
        for message, example, rollout in read[:MOST_READ]:
            key = kind, _VARYING.sub("#", message)
            found.setdefault(key, Cluster(kind, message, example, rollout)).count += 1
    rows_by_size = sorted(found.values(), key=lambda one: (-one.count, one.kind, one.message))
    return Clusters(tuple(rows_by_size[:MOST_SHOWN]), max(0, len(rows_by_size) - MOST_SHOWN), partial)
