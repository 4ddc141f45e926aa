"""Makes the cards that lists of environments show: writes mark them as stale, the sweeper makes them anew.

So a page of environments reads no evaluation, and a write costs one flag. Two kinds of viewers have a card each: for
everybody public evaluations of a public environment count, for members of its owner that owner's as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from envhub.protocol.packages import Visibility
from envhub.protocol.runs import RunState

from hub.evals.models import Evaluation
from hub.evals.standings.moves import Slim, moves, pairs_of
from hub.evals.wire import evaluation_summary
from hub.registry.cards import MOST_MEANS, Card, Cards
from hub.registry.facts import facts_of
from hub.registry.models import Environment
from hub.registry.services.environments import search_text

AT_ONCE = 20  # environments of a pass
LOOKED_AT = 200  # the newest evaluations of an environment


def refresh_cards() -> int:
    """The sweeper's chore: how many cards it has made."""
    stale = list(Environment.objects.filter(card_stale=True).order_by("pk").values_list("pk", flat=True)[:AT_ONCE])
    for key in stale:
        _refresh(key)
    return len(stale)


def _refresh(key: UUID) -> None:
    """Under the row's lock: whoever marks it meanwhile waits, and has it made once more."""
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
            ranked_publicly=found.public.score is not None,
            ranked_privately=found.members.score is not None,
            card_stale=False,
        )


def _cards(environment: Environment) -> Cards:
    ended = Evaluation.objects.filter(environment=environment, state=RunState.SUCCEEDED.value).exclude(board="")
    public = ended.filter(visibility=Visibility.PUBLIC.value) if environment.is_public else ended.none()
    own = Q(owner=environment.owner_id)
    if environment.is_public:
        own |= Q(visibility=Visibility.PUBLIC.value)
    return Cards(public=_card(public), members=_card(ended.filter(own)))


def _card(rows: QuerySet[Evaluation]) -> Card:
    slim = [Slim(*row) for row in rows.order_by("-pk").values_list(*Slim._fields)[:LOOKED_AT]]
    if not slim:
        return Card()
    best, pairs = _ranked(slim), pairs_of(slim)
    means = [row.pk for row in slim[:MOST_MEANS]]
    wanted = {*best, *means, *(pk for pair in pairs for pk in pair)}
    full = {row.pk: row for row in rows.filter(pk__in=wanted)}
    rewards = {pk: evaluation_summary(row).reward for pk, row in full.items()}
    standing = [
        (reward.std_error is None, -reward.mean, best[pk], pk)
        for pk, reward in rewards.items()
        if reward and pk in best
    ]
    course = tuple(reward.mean for pk in reversed(means) if (reward := rewards.get(pk)))
    if not standing:
        return Card(means=course, moves=moves(pairs, full, None))
    _, mean, model, leader = min(standing)
    return Card(model=model, score=-mean, means=course, moves=moves(pairs, full, leader))


def _ranked(slim: Sequence[Slim]) -> dict[UUID, str]:
    """Of the newest version's board with the most models: the newest evaluation of each, as the leaderboard has it."""
    newest = max((version for _, _, version, _ in slim if version), default=None)
    models: dict[str, dict[str, UUID]] = {}
    for pk, board, version, model in slim:
        if version == newest:
            models.setdefault(board, {}).setdefault(model, pk)
    counts = Counter(board for _, board, version, _ in slim if version == newest)
    shown = max(models, key=lambda board: (len(models[board]), counts[board], max(models[board].values())))
    return {pk: model for model, pk in models[shown].items()}
