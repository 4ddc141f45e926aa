"""Makes the cards that lists of environments show: writes mark them as stale, and the sweeper rebuilds them.

So a page of environments reads no evaluations, and a write only sets a flag. Each environment has two cards: one for
everybody, based on public evaluations of a public environment, and one for members of its owner, which adds the
owner's own evaluations.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db import transaction
from envhub.protocol.visibility import Visibility

from hub.evals.forecasts.trainability import forecast
from hub.evals.models import Evaluation
from hub.evals.queries import Contending, boards, contenders, newest_of_models
from hub.evals.standings.moves import Slim, moves, pairs_of
from hub.evals.statistics import Aggregate
from hub.evals.wire import evaluation_summary
from hub.registry.cards import MOST_MEANS, Card, Cards
from hub.registry.facts import facts_of
from hub.registry.models import Environment
from hub.registry.queries import packages_in
from hub.registry.services.environments import public_evaluations, search_text

AT_ONCE = 20  # environments per pass
LOOKED_AT = 200  # the newest evaluations of an environment


def refresh_cards() -> int:
    """Rebuild stale cards (a chore of the sweeper); return how many."""
    stale = list(Environment.objects.filter(card_stale=True).order_by("pk").values_list("pk", flat=True)[:AT_ONCE])
    for key in stale:
        _refresh(key)
    return len(stale)


def _refresh(key: UUID) -> None:
    """Rebuild a card under the row's lock.

    A writer that marks it as stale meanwhile waits, so it is rebuilt once more.
    """
    with transaction.atomic():
        row = Environment.objects.select_for_update(of=("self",)).select_related("owner").filter(pk=key).first()
        if row is None:
            return
        found, facts = _cards(row), facts_of(row.latest)
        Environment.objects.filter(pk=key).update(
            search_text=search_text(row.owner, row.name, row.description, row.tags),
            kind=facts.kind,
            examples=facts.examples,
            uses_sandbox=facts.uses_sandbox,
            lacks=facts.lacks,
            card=found.model_dump(mode="json"),
            evaluations=public_evaluations(row),
            signal=round(1000 * (found.public.signal or 0)),
            ranked_publicly=found.public.score is not None,
            ranked_privately=found.members.score is not None,
            card_stale=False,
        )
        row.depends_on.set(packages_in(row.latest))


def _cards(environment: Environment) -> Cards:
    """Return the cards for everybody (no owners) and for members (the environment's owner)."""
    return Cards(public=_card(environment, []), members=_card(environment, [environment.owner_id]))


def _card(environment: Environment, owners: list[UUID]) -> Card:
    slim = _newest(environment, owners)
    if not slim:
        return Card()
    first = _first_board(contenders(owners, environment))
    best, pairs = set(newest_of_models(*first)[:LOOKED_AT]), pairs_of(slim)
    means = [row.pk for row in slim if row.board == first[1]][:MOST_MEANS]
    wanted = {*best, *means, *(pk for pair in pairs for pk in pair)}
    full = Evaluation.objects.in_bulk(wanted)
    rewards = {pk: evaluation_summary(row).reward for pk, row in full.items()}
    standing = [
        (reward.std_error is None, -reward.mean, full[pk].model_name, pk)
        for pk, reward in rewards.items()
        if reward and pk in best
    ]
    course = tuple(reward.mean for pk in reversed(means) if (reward := rewards.get(pk)))
    if not standing:
        return Card(means=course, moves=moves(pairs, full, None))
    _, mean, model, leader = min(standing)
    card = Card(model=model, score=-mean, means=course, moves=moves(pairs, full, leader))
    return card.model_copy(update=_trainability([full[pk] for pk in best if pk in full]))


def _trainability(rows: Sequence[Evaluation]) -> dict[str, object]:
    """Return `signal` and `learner` of a card: of these evaluations, the one with the most groups that differ."""
    forecasts = [(found.best.share, row.model_name) for row in rows if (found := forecast(aggregate_of(row)))]
    if not forecasts:
        return {}
    share, model = max(forecasts)
    return {"signal": share, "learner": model}


def aggregate_of(row: Evaluation) -> Aggregate:
    """Return the running statistics of an evaluation."""
    return Aggregate.model_validate(row.aggregate)


def _newest(environment: Environment, owners: list[UUID]) -> list[Slim]:
    """Return the newest ranked evaluations, newest first. Public ones and the owners' own each use their own index."""
    rows = Evaluation.objects.filter(environment=environment, contender__isnull=False).order_by("-pk")
    parts = [rows.filter(owner__in=owners)]
    if environment.is_public:
        parts.append(rows.filter(visibility=Visibility.PUBLIC.value))
    found = {row[0]: Slim(*row) for part in parts for row in part.values_list(*Slim._fields)[:LOOKED_AT]}
    return sorted(found.values(), key=lambda row: row.pk, reverse=True)[:LOOKED_AT]


def _first_board(known: Sequence[Contending]) -> tuple[Sequence[Contending], str]:
    """Return the contenders with the key of the leaderboard's first board; "" without contenders."""
    return known, boards(known)[0].key if known else ""
