"""An evaluation or a training run, as labels, notes and saved views on its rollouts see it.

`hub.training.annotation_targets` has the kind for training runs. Reads (`annotations`), writes (`services.annotating`),
pages and API accept both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Model
from django.urls import reverse

from hub.accounts.models import Owner, User
from hub.evals.models import Evaluation, RolloutLabel, RolloutNote, SavedRolloutView, SavedView


@dataclass(frozen=True)
class AnnotationKind:
    """Either evaluations or training runs. parent: the field by which their labels and notes refer to them."""

    noun: str
    parent: str
    labels: Any  # a subclass of Label that also has `parent` and `rollout`
    notes: Any  # a subclass of Note, likewise
    views: type[SavedRolloutView]
    shares_views: Callable[[Any], dict[str, Any]]  # the fields of `views` that say which runs share a view
    view_relations: tuple[str, ...] = ()  # relations of `views` that the API shows


@dataclass(frozen=True)
class AnnotationTarget:
    """An evaluation or a training run.

    title: in words; address: of its page; listed_at: of the page with the table of its rollouts.
    """

    kind: AnnotationKind
    whole: Any
    title: str
    address: str
    listed_at: str

    @property
    def owner(self) -> Owner:
        """The owner, whose members may write, and may read notes."""
        owner: Owner = self.whole.owner
        return owner

    @property
    def starter(self) -> User:
        """The user who started it and is notified of notes."""
        user: User = self.whole.created_by
        return user

    @property
    def own(self) -> dict[str, Any]:
        """The filter that selects its labels and notes."""
        return {self.kind.parent: self.whole}

    def lock(self) -> None:
        """Lock its row until the transaction ends."""
        rows: Any = type(self.whole)._default_manager
        rows.select_for_update(of=("self",)).get(pk=self.whole.pk)


@dataclass(frozen=True)
class Place:
    """A rollout in it. address: of its page in the reader; position: its fields in the API."""

    row: Model
    address: str
    position: dict[str, int]

    @property
    def title(self) -> str:
        """The rollout in words: "example 3, rollout 0"."""
        return ", ".join(f"{name} {number}" for name, number in self.position.items())


EVALUATION = AnnotationKind(
    noun="evaluation",
    parent="evaluation",
    labels=RolloutLabel,
    notes=RolloutNote,
    views=SavedView,
    shares_views=lambda evaluation: {"owner": evaluation.owner, "environment": evaluation.environment},
    view_relations=("environment__owner",),
)


def target_of(evaluation: Evaluation) -> AnnotationTarget:
    """Wrap an evaluation whose owner and environment are loaded."""
    address = reverse("evaluation", args=[evaluation.pk])
    title = f"{evaluation.environment.owner.slug}/{evaluation.environment.name}"
    return AnnotationTarget(EVALUATION, evaluation, title, address, address)


def place_in(evaluation: Evaluation, row: Any) -> Place:
    """Wrap a rollout of an evaluation."""
    address = reverse("rollout", args=[evaluation.pk, row.example, row.rollout])
    return Place(row, address, {"example": row.example, "rollout": row.rollout})
