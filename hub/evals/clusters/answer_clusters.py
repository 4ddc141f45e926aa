"""Groups unsolved rollouts that ended with the same answer or, without one, with the same tool call.

It reads the ends of answers that the index keeps (envhub.packaging.snippets), a bounded number of them.
"""

from __future__ import annotations

import re

from hub.evals.clusters.grouping import Clusters, Member, clusters_of
from hub.evals.models import Evaluation, RolloutIndex
from hub.evals.statistics import PASS_THRESHOLD

ANSWER = "answer"  # the kind of these clusters
MOST_READ = 1000  # unsolved rollouts read
FEWEST = 2  # rollouts of a cluster
# How models mark their final answer; the last mark counts.
_MARKED = (
    re.compile(r".*\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}"),
    re.compile(r".*<answer>(.*?)</answer>", re.IGNORECASE),
    re.compile(r".*####\s*(.+)$"),
    re.compile(r".*\banswer(?:\s+is\b\s*:?|\s*:)\s*(.+)$", re.IGNORECASE),
)
_AROUND = " \t*_`$\"'.,;:!"


def answer_clusters(evaluation: Evaluation) -> Clusters:
    """Return the unsolved rollouts of at least two with the same answer; the lowest rewards are read first."""
    found = wrong_answers(evaluation, MOST_READ + 1)
    kept = ((ANSWER, one) for one in found[:MOST_READ] if one.shared)
    return clusters_of(kept, least=FEWEST, partial=len(found) > MOST_READ)


def wrong_answers(evaluation: Evaluation, most: int = MOST_READ) -> list[Member]:
    """Return the unsolved rollouts with the lowest rewards."""
    rows = RolloutIndex.objects.filter(evaluation=evaluation, reward__lt=PASS_THRESHOLD).order_by("reward", "pk")
    found = rows.values_list("pk", "answered", "target", "example", "rollout")[:most]
    return [
        Member(pk, final_answer(answered), answered, target, example, rollout)
        for pk, answered, target, example, rollout in found
    ]


def final_answer(answered: str) -> str:
    """Return what is compared of an answer: the part that the model marked as final, else all, ignoring case."""
    marked = (found[1] for pattern in _MARKED if (found := pattern.match(answered)))
    return next(filter(None, map(_plain, marked)), "") or _plain(answered)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(_AROUND)
