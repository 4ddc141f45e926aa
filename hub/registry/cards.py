"""What a list shows of each environment: the best model, the trend of its evaluations, the viewer's star.

A card is stored twice: for everybody, and for members of the environment's owner. `hub.evals.standings.cards` makes
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q, Sum
from envhub.protocol.visibility import Visibility
from pydantic import BaseModel, ConfigDict, ValidationError

from hub.accounts.models import User
from hub.accounts.queries import visible_owner_ids, visible_owners
from hub.core.sparkline import sparkline
from hub.registry.models import Environment, EvaluationCount, Star
from hub.registry.queries import Viewer

MOST_MEANS = 16
MOST_MOVES = 4


class Move(BaseModel):
    """A mean reward that clearly differs from that of the model's previous evaluation. best: it leads the board."""

    model_config = ConfigDict(frozen=True)

    evaluation: UUID
    since: UUID  # the previous evaluation
    model: str
    before: float
    after: float
    at: datetime
    best: bool = False


class Card(BaseModel):
    """The best model under the leaderboard's first settings, the means of the newest evaluations (oldest first), the
    scores among them that moved (newest first), and the model of whose groups of rollouts most would teach it."""

    model_config = ConfigDict(frozen=True)

    model: str = ""
    score: float | None = None
    means: tuple[float, ...] = ()
    moves: tuple[Move, ...] = ()
    signal: float | None = None  # the share of groups that differ, at the best group size
    learner: str = ""  # the model that `signal` is of

    @property
    def line(self) -> str:
        """The means as points of a polyline; "" for fewer than two."""
        return sparkline(self.means)


class Cards(BaseModel):
    """The content of `Environment.card`."""

    model_config = ConfigDict(frozen=True)

    public: Card = Card()
    members: Card = Card()


@dataclass(frozen=True)
class Listed:
    """An environment in a list, as one viewer sees it."""

    environment: Environment
    card: Card
    starred: bool
    evaluations: int  # those that the viewer may see


def listed(user: Viewer, rows: Iterable[Environment]) -> list[Listed]:
    """Prepare the rows of one page, with three queries."""
    shown = list(rows)
    mine = set(visible_owners(user).filter(pk__in={row.owner_id for row in shown}).values_list("pk", flat=True))
    starred, seen = starred_by(user, shown), evaluations_seen(user, shown)
    return [Listed(row, card_of(row, is_member=row.owner_id in mine), row.pk in starred, seen[row.pk]) for row in shown]


def evaluations_seen(user: Viewer, rows: Iterable[Environment]) -> dict[UUID, int]:
    """Count each environment's evaluations that the user may see (as in `hub.evals.queries`), with one query."""
    shown = {row.pk: row for row in rows}
    counts = EvaluationCount.objects.filter(environment__in=list(shown))
    if isinstance(user, User) and user.is_administrator:
        found = dict.fromkeys(shown, 0)
    else:
        found = {pk: row.evaluations if row.is_public else 0 for pk, row in shown.items()}
        counted = Q(visibility=Visibility.PUBLIC.value, environment__visibility=Visibility.PUBLIC.value)
        counts = counts.filter(owner__in=visible_owner_ids(user)).exclude(counted)
    sums = counts.order_by().values_list("environment_id").annotate(Sum("evaluations"))
    for pk, own in sums:
        found[pk] += own
    return found


def card_of(row: Environment, *, is_member: bool) -> Card:
    """Return the environment's card for this viewer; empty if none has been made yet."""
    try:
        cards = Cards.model_validate(row.card)
    except ValidationError:
        return Card()
    return cards.members if is_member else cards.public


def starred_by(user: Viewer, rows: Iterable[Environment]) -> set[object]:
    """Return the ids of the environments that the user has starred."""
    if not isinstance(user, User):
        return set()
    stars = Star.objects.filter(user=user, environment__in=list(rows))
    return set(stars.values_list("environment_id", flat=True))
