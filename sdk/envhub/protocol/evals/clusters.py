"""What GET /evaluations/ID/clusters answers: rollouts that failed or answered alike."""

from __future__ import annotations

from envhub.protocol.base import Response


class RolloutCluster(Response):
    """Rollouts of one kind that have something in common, with the first of them as an example.

    name: as the filter `cluster` of a list of rollouts takes it. kind: of the failure, or "answer" for unsolved
    rollouts. message: the failure's message, or the end of the answer.
    """

    name: str
    kind: str
    message: str
    target: str = ""
    count: int
    examples: int
    example: int
    rollout: int


class RolloutClusters(Response):
    """The largest clusters; `more`: how many smaller ones there are; `partial`: not all rollouts were read."""

    clusters: tuple[RolloutCluster, ...]
    more: int = 0
    partial: bool = False
