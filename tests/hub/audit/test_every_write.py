"""Every route that writes is either logged or on the list of those that are not, with its reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import transaction
from django.test import Client
from envhub.protocol.accounts.users import Scope
from pytest_django import DjangoDbBlocker

from hub.audit.actions import ACTIONS, SHOWN_AGAIN, UNLOGGED, action_of
from hub.audit.models import AuditEntry
from tests.factories.accounts import bearer, make_token
from tests.hub.api.access import Access
from tests.hub.api.rights import RIGHTS, body_of, kwargs_of
from tests.hub.api.test_every_route_as_every_role import API, reverse
from tests.hub.api.world import World, make_world

pytestmark = pytest.mark.django_db
WRITES = {
    f"{method.upper()} {path}": (path, method, access)
    for path, methods in RIGHTS.items()
    for method, access in methods.items()
    if method not in {"get", "head"}
}
PEOPLE = {Access.SIGNED_IN, Access.PRIVATE, Access.PERSONAL, Access.ADMINISTRATOR}


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[World]:
    with django_db_blocker.unblock(), transaction.atomic():
        yield make_world()
        transaction.set_rollback(True)


def test_every_write_is_on_one_of_the_two_lists_and_they_hold_nothing_else() -> None:
    assert set(ACTIONS) & set(UNLOGGED) == set()
    assert set(WRITES) == set(ACTIONS) | set(UNLOGGED)
    assert all(UNLOGGED.values())


def test_what_nobody_has_thought_of_is_logged_as_it_is() -> None:
    assert action_of("POST", "api/v1/novelties") == "POST api/v1/novelties"


def test_a_form_that_is_shown_again_has_written_nothing() -> None:
    for form in SHOWN_AGAIN:
        method, _, route = form.partition(" ")
        assert action_of(method, route, 200) is None
        assert action_of(method, route, 302) == ACTIONS[form]


@pytest.mark.parametrize("call", sorted(call for call, (_, _, access) in WRITES.items() if access in PEOPLE))
def test_a_write_of_a_person_leaves_one_line_without_its_body(world: World, call: str) -> None:
    path, method, access = WRITES[call]
    user = world.root if access is Access.ADMINISTRATOR else world.alice
    client, headers = Client(), {}
    if path.startswith(API):
        admin = (Scope.ADMIN,) if user.is_superuser else ()
        headers = bearer(make_token(user, Scope.READ, Scope.WRITE, Scope.INFERENCE, *admin))
    else:
        client.force_login(user)
    with transaction.atomic():
        body = body_of(world, path, method)
        url = "/" + reverse(path, kwargs_of(world, path))
        reply = getattr(client, method)(url, data=body, content_type="application/json", headers=headers)
        entries = list(AuditEntry.objects.values())
        transaction.set_rollback(True)
    expected = (300 if call in SHOWN_AGAIN else 200) <= reply.status_code < 400 and call in ACTIONS
    assert [entry["action"] for entry in entries] == ([ACTIONS[call]] if expected else [])
    for entry in entries:
        assert (entry["actor"], bool(entry["token_prefix"])) == (user.username, path.startswith(API))
        assert entry["owner_id"] is not None
        assert world.join_secret not in str(entry)
