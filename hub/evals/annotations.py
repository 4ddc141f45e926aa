"""Reads of labels, notes and saved views. An evaluation has few labels (MOST_LABELS), so that they can be counted and
looked up whole, however many rollouts it has."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from django.db.models import Count, QuerySet
from envhub.protocol.annotations import ANY_LABEL, LabelCount

from hub.accounts.models import Owner
from hub.core.errors import NotFound
from hub.core.ids import GivenId, find_by_id
from hub.evals.models import Evaluation, RolloutIndex, RolloutLabel, RolloutNote, SavedView

MOST_LABELS = 10_000  # of one evaluation
MOST_ON_ROLLOUT = 20
MOST_NOTES = 100  # on one rollout
MOST_VIEWS = 30  # of an owner, for one environment
SUGGESTED = 30
RECENT = 1000  # labels that suggestions are made of


def label_counts(evaluation: Evaluation) -> list[LabelCount]:
    """The evaluation's labels, the most frequent first."""
    rows = RolloutLabel.objects.filter(evaluation=evaluation).order_by().values("name").annotate(count=Count("pk"))
    counted = rows.order_by("-count", "name").values_list("name", "count")
    return [LabelCount(name=name, count=count) for name, count in counted]


def labelled(evaluation: Evaluation, label: str) -> list[int]:
    """The keys of the rollouts that have a label, or any. Values, since the planner would walk all rollouts instead."""
    rows = RolloutLabel.objects.filter(evaluation=evaluation)
    if label != ANY_LABEL:
        rows = rows.filter(name=label)
    return list(rows.order_by("rollout_id").values_list("rollout_id", flat=True).distinct()[:MOST_LABELS])


def labels_of(rollouts: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """The labels of rollouts, by their keys; those without any are left out."""
    found: dict[int, list[str]] = defaultdict(list)
    rows = RolloutLabel.objects.filter(rollout__in=list(rollouts)).order_by("rollout_id", "name")
    for rollout, name in rows.values_list("rollout_id", "name"):
        found[rollout].append(name)
    return {rollout: tuple(names) for rollout, names in found.items()}


def suggested_labels(owner: Owner) -> list[str]:
    """What the owner's members have used lately, the most frequent first."""
    newest = RolloutLabel.objects.filter(owner=owner).order_by("-pk").values_list("name", flat=True)[:RECENT]
    return [name for name, _ in Counter(newest).most_common(SUGGESTED)]


def notes_of(rollout: RolloutIndex) -> QuerySet[RolloutNote]:
    """The thread of a rollout, the newest first, as every list of the API."""
    return RolloutNote.objects.filter(rollout=rollout).select_related("created_by").order_by("-pk")


def get_note(rollout: RolloutIndex, note_id: GivenId) -> RolloutNote:
    """One note. Raises NotFound, AmbiguousId."""
    found = find_by_id(notes_of(rollout).select_related("evaluation__owner"), note_id, lambda note: note.text[:40])
    if found is None:
        raise NotFound("there is no such note on this rollout")
    return found


def saved_views(evaluation: Evaluation) -> QuerySet[SavedView]:
    """What the evaluation's owner keeps for its environment, by name: never more than MOST_VIEWS."""
    rows = SavedView.objects.filter(environment=evaluation.environment_id, owner=evaluation.owner_id)
    return rows.select_related("created_by", "owner", "environment__owner").order_by("name", "pk")


def get_view(evaluation: Evaluation, view_id: GivenId) -> SavedView:
    """One of them. Raises NotFound, AmbiguousId."""
    found = find_by_id(saved_views(evaluation), view_id, lambda view: view.name)
    if found is None:
        raise NotFound("there is no such saved view")
    return found
