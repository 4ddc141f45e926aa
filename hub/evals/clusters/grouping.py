"""Groups of rollouts that failed or answered alike, each with one of them as an example."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

MOST_SHOWN = 10  # clusters shown


class Member(NamedTuple):
    """A rollout that may be in a cluster. shared: what it has in common with the others; text: as it was stored."""

    key: int
    shared: str
    text: str
    target: str
    example: int
    rollout: int


@dataclass
class Cluster:
    """Rollouts of one kind with the same `shared` text, represented by the first that was read.

    name: as the filter `cluster` of a list has it. It is made from what they share, so it stays the same.
    """

    name: str
    kind: str  # of the failure, or "answer"
    message: str
    target: str
    example: int
    rollout: int
    count: int = 0
    examples: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Clusters:
    """Clusters, the largest first. `partial`: not all rollouts were read."""

    rows: tuple[Cluster, ...]
    more: int  # clusters that are not shown
    partial: bool


def cluster_name(kind: str, shared: str) -> str:
    """Return the name of the cluster with this common text."""
    return f"{kind}-{hashlib.sha256(shared.encode()).hexdigest()[:12]}"


def clusters_of(found: Iterable[tuple[str, Member]], *, least: int, partial: bool) -> Clusters:
    """Group (kind, member) by what they share; clusters of fewer than `least` rollouts are left out."""
    grouped: dict[tuple[str, str], Cluster] = {}
    for kind, one in found:
        cluster = grouped.get((kind, one.shared))
        if cluster is None:
            name = cluster_name(kind, one.shared)
            cluster = Cluster(name, kind, one.text, one.target, one.example, one.rollout)
            grouped[kind, one.shared] = cluster
        cluster.count += 1
        cluster.examples.add(one.example)
    large = [one for one in grouped.values() if one.count >= least]
    large.sort(key=lambda one: (-one.count, one.kind, one.message))
    return Clusters(tuple(large[:MOST_SHOWN]), max(0, len(large) - MOST_SHOWN), partial)
