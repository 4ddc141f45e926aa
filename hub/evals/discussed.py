"""What rollouts belong to, as the labels, notes and saved views on them see it: an evaluation here, a training run in
`hub.training.discussed`. Reads (`annotations`), writes (`services.annotating`), pages and API take either."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Model
from django.urls import reverse

from hub.accounts.models import Owner, User
from hub.evals.models import Evaluation, RolloutLabel, RolloutNote, SavedRolloutView, SavedView


@dataclass(frozen=True)
class Kind:
    """One sort of them. parent: the field by which its labels and notes name it."""

    noun: str
    parent: str
    labels: Any  # a type of Label, which has `parent` and `rollout`, too
    notes: Any  # a type of Note, likewise
    views: type[SavedRolloutView]
    shares_views: Callable[[Any], dict[str, Any]]  # what a view is kept for: fields of `views`
    view_relations: tuple[str, ...] = ()  # of `views`, that the API shows


@dataclass(frozen=True)
class Discussed:
    """One of them. title: in words; address: of its page; listed_at: of the page with the table of its rollouts."""

    kind: Kind
    whole: Any
    title: str
    address: str
    listed_at: str

    @property
    def owner(self) -> Owner:
        """Whose members write, and read notes."""
        owner: Owner = self.whole.owner
        return owner

    @property
    def starter(self) -> User:
        """Who is told of notes."""
        user: User = self.whole.created_by
        return user

    @property
    def own(self) -> dict[str, Any]:
        """What finds its labels and notes."""
        return {self.kind.parent: self.whole}

    def lock(self) -> None:
        """Until the transaction ends."""
        rows: Any = type(self.whole)._default_manager
        rows.select_for_update(of=("self",)).get(pk=self.whole.pk)


@dataclass(frozen=True)
class Place:
    """A rollout of it. address: of its reader; position: as the API names it."""

    row: Model
    address: str
    position: dict[str, int]


EVALUATION = Kind(
    noun="evaluation",
    parent="evaluation",
    labels=RolloutLabel,
    notes=RolloutNote,
    views=SavedView,
    shares_views=lambda evaluation: {"owner": evaluation.owner, "environment": evaluation.environment},
    view_relations=("environment__owner",),
)


def discussed(evaluation: Evaluation) -> Discussed:
    """An evaluation, with its owner and environment."""
    address = reverse("evaluation", args=[evaluation.pk])
    title = f"{evaluation.environment.owner.slug}/{evaluation.environment.name}"
    return Discussed(EVALUATION, evaluation, title, address, address)


def place_in(evaluation: Evaluation, row: Any) -> Place:
    """A rollout of an evaluation."""
    address = reverse("rollout", args=[evaluation.pk, row.example, row.rollout])
    return Place(row, address, {"example": row.example, "rollout": row.rollout})
