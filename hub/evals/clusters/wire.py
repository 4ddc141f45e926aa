"""Clusters of rollouts as the API answers them."""

from __future__ import annotations

from envhub.protocol.evals.clusters import RolloutCluster, RolloutClusters

from hub.evals.clusters.answer_clusters import answer_clusters
from hub.evals.clusters.failure_clusters import failure_clusters
from hub.evals.clusters.grouping import Cluster
from hub.evals.models import Evaluation
from hub.evals.statistics import Aggregate


def clusters_view(evaluation: Evaluation) -> RolloutClusters:
    """Return the clusters of failures and of wrong answers."""
    failed = failure_clusters(evaluation, Aggregate.model_validate(evaluation.aggregate).outcomes)
    wrong = answer_clusters(evaluation)
    return RolloutClusters(
        clusters=tuple(_cluster(one) for one in (*failed.rows, *wrong.rows)),
        more=failed.more + wrong.more,
        partial=failed.partial or wrong.partial,
    )


def _cluster(one: Cluster) -> RolloutCluster:
    return RolloutCluster(
        name=one.name,
        kind=one.kind,
        message=one.message,
        target=one.target,
        count=one.count,
        examples=len(one.examples),
        example=one.example,
        rollout=one.rollout,
    )
