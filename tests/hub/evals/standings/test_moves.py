"""Scores that moved: what the card of an environment says of them, and the start page."""

from __future__ import annotations

import pytest
from django.test import Client

from hub.accounts.models import User
from hub.evals.models import Evaluation
from hub.evals.standings.cards import refresh_cards
from hub.registry.cards import Move, card_of
from hub.registry.models import Environment
from tests.factories.accounts import make_user
from tests.hub.evals.standings.test_cards import alice
from tests.hub.evals.standings.test_cards import measured as measured_rollouts

__all__ = ["alice"]
pytestmark = pytest.mark.django_db
LOW, MIDDLE, HIGH = [0.0, 0.1, 0.0, 0.1], [0.4, 0.6, 0.4, 0.6], [0.9, 1.0, 0.9, 1.0]


def measured(user: User, model: str, rewards: list[float]) -> Evaluation:
    """An evaluation that has ended, with one rollout of each example."""
    return measured_rollouts(user, model, *([reward] for reward in rewards))


def moved(*, is_member: bool = True) -> list[tuple[str, float, float, bool]]:
    refresh_cards()
    found: tuple[Move, ...] = card_of(Environment.objects.get(name="tiny-env"), is_member=is_member).moves
    return [(move.model, round(move.before, 2), round(move.after, 2), move.best) for move in found]


def test_clear_changes_of_the_same_model_count(alice: User, client: Client) -> None:
    for model, rewards in (("weak", HIGH), ("strong", LOW), ("weak", MIDDLE), ("strong", HIGH), ("strong", HIGH)):
        measured(alice, model, rewards)
    assert moved() == [("alice/strong", 0.05, 0.95, False), ("alice/weak", 0.95, 0.5, False)]
    assert moved(is_member=False) == []
    client.force_login(alice)
    html = client.get("/").content.decode()
    assert html.index("▼ worse") < html.index("▲ better")
    client.force_login(make_user("bob"))
    assert "Scores that moved" not in client.get("/").content.decode()


def test_the_leader_is_named_and_other_settings_are_not_compared(alice: User) -> None:
    measured(alice, "strong", LOW)
    other = measured(alice, "strong", HIGH)
    Evaluation.objects.filter(pk=other.pk).update(config=other.config | {"split": "train"})
    assert moved() == []
    Evaluation.objects.filter(pk=other.pk).update(config=other.config)
    Environment.objects.update(card_stale=True)
    assert moved() == [("alice/strong", 0.05, 0.95, True)]


@pytest.mark.parametrize(("examples", "clear"), [(2, False), (5, False), (6, True)])
def test_examples_that_all_agree_before_and_after_are_no_proof_until_there_are_six(
    alice: User, examples: int, clear: bool
) -> None:
    for reward in (0.0, 1.0):
        measured(alice, "strong", [reward] * examples)
    assert bool(moved()) is clear
