"""Groups failed rollouts with similar messages: their number and one of them. Reads a bounded number per kind."""

from __future__ import annotations

import re
from collections.abc import Iterable

from envhub.protocol.runs import FailureKind

from hub.evals.clusters.grouping import Clusters, Member, clusters_of
from hub.evals.models import Evaluation, RolloutIndex

MOST_READ = 300  # failures read per kind
_VARYING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+(?:\.\d+)?", re.IGNORECASE)  # addresses, ids, numbers


def failure_clusters(evaluation: Evaluation, kinds: Iterable[str]) -> Clusters:
    """Return failures of these kinds, grouped by messages that differ only in numbers and ids, the newest first.

    One query per kind; names that are no FailureKind are skipped. Partial: of some kind, only the newest were read.
    """
    known = sorted(set(kinds) & set(FailureKind))
    read = [(kind, failures(evaluation, kind, MOST_READ + 1)) for kind in known]
    partial = any(len(found) > MOST_READ for _, found in read)
    return clusters_of(((kind, one) for kind, found in read for one in found[:MOST_READ]), least=1, partial=partial)


def failures(evaluation: Evaluation, kind: str, most: int = MOST_READ) -> list[Member]:
    """Return the newest failures of a kind."""
    rows = RolloutIndex.objects.filter(evaluation=evaluation, failure_kind=kind).exclude(failure_kind="")
    found = rows.order_by("-pk").values_list("pk", "failure_message", "example", "rollout")[:most]
    return [
        Member(pk, _VARYING.sub("#", message), message, "", example, rollout) for pk, message, example, rollout in found
    ]
