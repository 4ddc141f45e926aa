"""The scores of a user's environments that moved lately, for the start page: read from the cards that lists show."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from hub.accounts.models import Role, User
from hub.accounts.queries import member_owners
from hub.evals.models import Evaluation
from hub.registry.cards import Move, card_of
from hub.registry.models import Environment
from hub.registry.queries import visible_environments

LATEST = 60  # the newest evaluations of the user's owners: their environments are looked at


class Moved(NamedTuple):
    """A score, and where it moved."""

    environment: Environment
    move: Move

    @property
    def fell(self) -> bool:
        """Whether it became worse."""
        return self.move.after < self.move.before


def moved_scores(user: User, *, since: datetime, most: int) -> list[Moved]:
    """Newest first, regressions before the rest."""
    owners = set(member_owners(user, Role.READER).order_by().values_list("pk", flat=True))
    latest = Evaluation.objects.filter(owner_id__in=owners).order_by("-pk").values("environment_id")[:LATEST]
    rows = visible_environments(user).filter(pk__in=latest).select_related("owner")
    cards = [(row, card_of(row, is_member=row.owner_id in owners)) for row in rows]
    found = [Moved(row, move) for row, card in cards for move in card.moves if move.at >= since]
    return sorted(found, key=lambda moved: (not moved.fell, -moved.move.at.timestamp()))[:most]
