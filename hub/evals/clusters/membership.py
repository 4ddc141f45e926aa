"""Selects the rollouts of a cluster by its name: exactly those that were counted."""

from __future__ import annotations

from envhub.protocol.runs import FailureKind

from hub.evals.clusters.answer_clusters import ANSWER, wrong_answers
from hub.evals.clusters.failure_clusters import failures
from hub.evals.clusters.grouping import cluster_name
from hub.evals.models import Evaluation


def members(evaluation: Evaluation, name: str) -> list[int]:
    """Return the keys of the rollouts in a cluster; none if there is no such cluster."""
    kind = name.rpartition("-")[0]
    if kind == ANSWER:
        found = wrong_answers(evaluation)
    else:
        found = failures(evaluation, kind) if kind in set(FailureKind) else []
    return [one.key for one in found if cluster_name(kind, one.shared) == name]
