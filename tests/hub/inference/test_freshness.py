"""How soon the gateway knows that a token has ended, and what asking costs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any
from uuid import UUID, uuid4

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import update_last_login
from django.db import connections, transaction
from django.utils import timezone
from envhub.protocol.models.deployments import DeploymentRequest

from hub.accounts.models import ApiToken, Membership, User
from hub.accounts.queries import live_token_ids
from hub.accounts.services import create_token, revoke_token
from hub.core.errors import NotAuthenticated
from hub.inference import freshness
from hub.inference.freshness import LiveTokens, changed_since
from hub.inference.lookup import Lookup
from hub.inference.services import create_deployment, ensure_deployment, note_usage
from tests.factories.accounts import make_user
from tests.factories.catalog import create_endpoint
from tests.factories.training_runs import create_trainable

pytestmark = pytest.mark.django_db(transaction=True)


class Clock:
    """Stands in for the time module."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(freshness, "time", made)
    monkeypatch.setattr(freshness._LastChange, "at", 0.0)
    return made


class Table:
    """The live tokens of a database; counts how often it is asked."""

    def __init__(self, *live: UUID) -> None:
        self.live = set(live)
        self.asked: list[set[UUID]] = []

    async def read(self, token_ids: Iterable[UUID]) -> set[UUID]:
        self.asked.append(set(token_ids))
        await asyncio.sleep(0)
        return self.live & set(token_ids)


async def test_a_token_that_another_process_has_ended_is_refused_within_a_second(clock: Clock) -> None:
    token = uuid4()
    table = Table(token)
    tokens = LiveTokens(table.read)
    tokens.note(token, clock.now)
    table.live.clear()
    assert await tokens.confirm(token)
    clock.now += 1
    assert not await tokens.confirm(token)


async def test_one_query_asks_for_all_tokens_however_many_calls_there_are(clock: Clock) -> None:
    known = [uuid4() for _ in range(20)]
    table = Table(*known)
    tokens = LiveTokens(table.read)
    for token in known:
        tokens.note(token, clock.now)
    clock.now += 1
    assert all(await asyncio.gather(*(tokens.confirm(token) for token in known for _ in range(50))))
    assert table.asked == [set(known)]


async def test_tokens_that_nobody_uses_any_more_are_not_asked_for(clock: Clock) -> None:
    idle, used = uuid4(), uuid4()
    table = Table(idle, used)
    tokens = LiveTokens(table.read)
    tokens.note(idle, clock.now)
    clock.now += freshness.IDLE_SECONDS
    tokens.note(used, clock.now - 1)
    assert await tokens.confirm(used)
    assert table.asked == [{used}]
    assert not await tokens.confirm(idle)


async def test_a_database_that_fails_is_told_to_who_waits_and_asked_again(clock: Clock) -> None:
    token, table = uuid4(), Table()

    async def broken(_: Iterable[UUID]) -> set[UUID]:
        raise OSError("gone")

    tokens = LiveTokens(broken)
    tokens.note(token, clock.now - 1)
    with pytest.raises(OSError, match="gone"):
        await tokens.confirm(token)
    table.live.add(token)
    tokens.read = table.read
    assert await tokens.confirm(token)


def test_what_decides_about_calls_voids_what_was_read_once_it_is_committed(clock: Clock) -> None:
    user = make_user("alice")
    _, token = create_token(user=user, name="t")
    clock.now += 1
    assert not changed_since(clock.now)
    with transaction.atomic():
        revoke_token(token=token)
        assert not changed_since(clock.now)
    assert changed_since(clock.now)
    clock.now += 1
    update_last_login(User, user)  # type: ignore[arg-type]  # of the stubs
    assert not changed_since(clock.now)
    Membership.objects.get(user=user).delete()
    assert changed_since(clock.now)


def test_loading_a_deployment_anew_voids_its_route_and_counting_its_calls_does_not(clock: Clock) -> None:
    user = make_user("alice")
    deployment = ensure_deployment(model=create_trainable(user.owner), user=user)
    clock.now += 1
    note_usage(deployment_id=deployment.pk, prompt_tokens=1, completion_tokens=1, now=timezone.now())
    assert not changed_since(clock.now)
    create_deployment(user=user, request=DeploymentRequest(model="alice/base", idle_seconds=60))
    assert changed_since(clock.now)


def test_only_tokens_that_may_call_are_live() -> None:
    alice, bob = make_user("alice"), make_user("bob")
    tokens = [create_token(user=user, name="t")[1] for user in (alice, alice, alice, bob)]
    revoke_token(token=tokens[1])
    ApiToken.objects.filter(pk=tokens[2].pk).update(expires_at=timezone.now())
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert live_token_ids([token.pk for token in tokens], now=timezone.now()) == {tokens[0].pk}


def _ended(secret: str) -> None:
    revoke_token(token=ApiToken.objects.get(prefix=secret[:10]))


def _prepared() -> str:
    user = make_user("alice")
    create_endpoint(user)
    return create_token(user=user, name="t")[0]


async def test_a_revoked_tokens_next_call_is_refused_although_its_route_is_kept() -> None:
    lookup: Any = Lookup()
    secret = await sync_to_async(_prepared)()
    await lookup.route(f"Bearer {secret}", "alice/stub")
    await sync_to_async(_ended)(secret)
    with pytest.raises(NotAuthenticated):
        await lookup.route(f"Bearer {secret}", "alice/stub")
    await sync_to_async(connections.close_all)()
