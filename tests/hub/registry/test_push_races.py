"""Two pushes of one version at the same time: exactly one makes it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread
from typing import Any

import pytest
from django.db import connection, connections

from hub.accounts.models import User
from hub.core.errors import Conflict
from hub.registry.models import Environment, Version
from hub.registry.services import begin_push, complete_push, move_environment, pushes
from hub.runs.models import Run
from hub.storage.services import store_bytes
from tests.factories.accounts import make_owner, make_user
from tests.factories.registry import Pair, build_pair, create_ready_version

pytestmark = pytest.mark.django_db(transaction=True)


def require_threads() -> None:
    if connection.vendor == "sqlite" and connection.is_in_memory_db():  # type: ignore[attr-defined]
        pytest.skip("threads share no in-memory database: give the test database a file")


def race(user: User, pairs: list[Pair]) -> list[str]:
    """Complete all pushes at once; what each was answered."""
    require_threads()
    begun = []
    for pair in pairs:
        for data in (pair.wheel, pair.sdist):
            store_bytes(data, holder=user.owner.pk)
        begun.append(begin_push(owner=user.owner, user=user, request=pair.request()).push)
    barrier = Barrier(len(begun))

    def complete(number: int) -> str:
        try:
            barrier.wait(timeout=20)
            return "created" if complete_push(push=begun[number]).created else "unchanged"
        except Conflict as error:
            return error.code
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(begun)) as pool:
        return sorted(pool.map(complete, range(len(begun))))


def test_of_different_contents_one_wins_and_the_others_conflict() -> None:
    pairs = [build_pair(files={"who.txt": str(number)}) for number in range(4)]
    assert race(make_user("alice"), pairs) == ["created", *["version_exists"] * 3]
    assert (Version.objects.count(), Run.objects.count()) == (1, 1)


def test_of_the_same_content_one_makes_it_and_the_others_find_it() -> None:
    assert race(make_user("alice"), [build_pair()] * 4) == ["created", *["unchanged"] * 3]
    assert (Version.objects.count(), Run.objects.count()) == (1, 1)


def test_different_versions_all_arrive_and_the_newest_is_latest() -> None:
    pairs = [build_pair(version=f"0.{number}.0") for number in range(4)]
    assert race(make_user("alice"), pairs) == ["created"] * 4
    assert Environment.objects.select_related("latest").get().latest == Version.objects.get(version="0.3.0")


def test_an_environment_is_not_given_away_while_a_version_of_it_comes_into_being(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_threads()
    alice, lab, pair = make_user("alice"), make_owner("lab"), build_pair(version="0.2.0")
    environment = create_ready_version(alice).environment
    for data in (pair.wheel, pair.sdist):
        store_bytes(data, holder=alice.owner.pk)
    push = begin_push(owner=alice.owner, user=alice, request=pair.request()).push
    make, answered = pushes._create_version, []

    def give_away() -> None:
        try:
            move_environment(environment=environment, owner=lab, name="tiny-env")
            answered.append("given")
        except Conflict as error:
            answered.append(error.code)
        finally:
            connections.close_all()

    mover = Thread(target=give_away)

    def make_slowly(*given: Any) -> Version:
        mover.start()
        mover.join(1)
        return make(*given)

    monkeypatch.setattr(pushes, "_create_version", make_slowly)
    assert complete_push(push=push).created
    mover.join()
    assert (answered, Environment.objects.get().owner) == (["busy"], alice.owner)
