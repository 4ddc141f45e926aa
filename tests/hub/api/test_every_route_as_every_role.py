"""Walks all routes of the hub as every role: a private thing is 404 to whoever may not see it, everywhere."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.http import HttpResponseBase
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.converters import get_converters
from django.urls.resolvers import RegexPattern
from django.utils.regex_helper import normalize
from envhub.protocol.accounts.users import Scope
from pytest_django import DjangoDbBlocker

from tests.factories.accounts import make_token
from tests.hub.api.access import Access
from tests.hub.api.rights import RIGHTS, body_of, kwargs_of
from tests.hub.api.world import MARK, World, make_world

pytestmark = pytest.mark.django_db
REFUSED = {401, 403, 404}
SAFE = {"get", "head"}
API = ("api/", "prime/api/")  # tokens are taken, and say what may be done


def walk(patterns: list[URLPattern | URLResolver], prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for pattern in patterns:
        path = prefix + str(pattern.pattern).removeprefix("^").removesuffix("$")
        if isinstance(pattern, URLResolver):
            yield from walk(pattern.url_patterns, path)
        else:
            yield path, pattern


ROUTES = {path: pattern for path, pattern in walk(get_resolver().url_patterns) if not path.startswith("admin/")}
CALLS = [(path, method, access) for path, methods in RIGHTS.items() for method, access in methods.items()]


def is_rest(path: str) -> bool:
    """Whether Django REST framework knows the view's methods; plain views know theirs only themselves."""
    return hasattr(ROUTES[path].callback, "cls")


def test_every_route_has_its_rights_written_down() -> None:
    assert set(ROUTES) == set(RIGHTS)


@pytest.mark.parametrize("path", sorted(path for path in RIGHTS if path in ROUTES and is_rest(path)))
def test_every_method_has_its_rights_written_down(path: str) -> None:
    view = ROUTES[path].callback.cls  # type: ignore[attr-defined, union-attr]
    served = {name for name in view.http_method_names if hasattr(view, name)} - {"options", "head"}
    assert served == set(RIGHTS[path])


class Role:
    """Calls one route with one kind of credentials; what a call writes is undone."""

    def __init__(self, world: World, path: str, method: str) -> None:
        self.world, self.path, self.method = world, path, method
        self.url = "/" + reverse(path, kwargs_of(world, path))
        self.body = body_of(world, path, method)

    def call(self, client: Client, token: str = "") -> HttpResponseBase:
        headers = {"Authorization": self._credentials(token)} if token else {}
        arguments: dict[str, Any] = {"headers": headers}
        if self.method not in SAFE:
            arguments |= {"data": self.body, "content_type": "application/json"}
        with transaction.atomic():
            try:
                response: HttpResponseBase = getattr(client, self.method)(self.url, **arguments)
                return response
            finally:
                transaction.set_rollback(True)

    def _credentials(self, token: str) -> str:
        if self.path.startswith("index/"):
            return "Basic " + base64.b64encode(f"x:{token}".encode()).decode()
        return f"Bearer {token}"

    def nobody(self) -> HttpResponseBase:
        return self.call(Client())

    def user(self, user: Any, *scopes: Scope) -> HttpResponseBase:
        """By API token where tokens are taken, by session on pages."""
        client = Client()
        if self.path.startswith((*API, "index/", "inference/", "hf/", "outside")):
            extra = (Scope.ADMIN,) if user.is_superuser and not scopes else ()
            return self.call(client, make_token(user, *(scopes or (Scope.READ, Scope.WRITE, Scope.INFERENCE)), *extra))
        client.force_login(user)
        return self.call(client)


def reverse(path: str, known: dict[str, Any]) -> str:
    """The path with its arguments filled in. A name without an entry in kwargs_of fails the test."""
    pattern = ROUTES[path].pattern
    if isinstance(pattern, RegexPattern):
        template, _ = normalize(path)[-1]
        return str(template) % known
    for name, converter in pattern.converters.items():
        kind = next(kind for kind, known_one in get_converters().items() if type(known_one) is type(converter))
        path = path.replace(f"<{kind}:{name}>", str(known[name])).replace(f"<{name}>", str(known[name]))
    return path


def text_of(response: HttpResponseBase) -> str:
    streaming = getattr(response, "streaming", False)
    return "" if streaming else response.content.decode(errors="replace")  # type: ignore[attr-defined]


def is_refused(response: HttpResponseBase) -> bool:
    """Refused, or sent to the login page."""
    to_login = response.status_code == 302 and response["Location"].startswith("/login")
    return response.status_code in REFUSED or to_login


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[World]:
    """One for all calls: each undoes what it wrote."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield make_world()
        transaction.set_rollback(True)


@pytest.mark.parametrize(("path", "method", "access"), [call for call in CALLS if call[2] is Access.PRIVATE])
def test_a_private_thing_is_for_its_owner_and_administrators(
    world: World, path: str, method: str, access: Access
) -> None:
    role = Role(world, path, method)
    assert role.user(world.bob).status_code == 404
    assert is_refused(role.nobody())
    assert is_refused(role.call(Client(), world.worker_token))
    assert is_refused(role.call(Client(), world.foreign_run_token))
    for user in (world.alice, world.root):
        response = role.user(user)
        assert response.status_code not in {401, 403, 404, 405, 500}, (user, text_of(response))


OF_ONE = [call for call in CALLS if "<id:" in call[0] and call[2] in {Access.PRIVATE, Access.PERSONAL}]


@pytest.mark.parametrize(("path", "method", "access"), OF_ONE)
def test_the_beginning_of_an_id_is_as_good_as_the_whole(world: World, path: str, method: str, access: Access) -> None:
    role = Role(world, path, method)
    answer = role.user(world.alice).status_code
    for name in ROUTES[path].pattern.converters:
        if name.endswith("_id") and name != "push_id":
            whole = str(kwargs_of(world, path)[name])
            role.url = role.url.replace(whole, whole[:24])  # in one millisecond the world has made several
    assert role.user(world.alice).status_code == answer
    assert role.user(world.bob).status_code == 404


@pytest.mark.parametrize(("path", "method", "access"), [call for call in CALLS if call[2] is Access.PERSONAL])
def test_a_personal_thing_is_for_its_user_alone(world: World, path: str, method: str, access: Access) -> None:
    role = Role(world, path, method)
    assert [role.user(user).status_code for user in (world.bob, world.root)] == [404, 404]
    assert is_refused(role.nobody())
    assert not is_refused(role.user(world.alice))


@pytest.mark.parametrize(("path", "method", "access"), [call for call in CALLS if call[2] is Access.PREVIEW])
def test_a_preview_of_what_is_private_is_nobodys(world: World, path: str, method: str, access: Access) -> None:
    role = Role(world, path, method)
    users = (world.alice, world.bob, world.root)
    for response in (role.nobody(), *(role.user(user) for user in users), role.call(Client(), world.worker_token)):
        assert response.status_code == 404


@pytest.mark.parametrize(("path", "method", "access"), [call for call in CALLS if call[2] is Access.SIGNED_IN])
def test_a_collection_of_ones_own_shows_nothing_of_others(world: World, path: str, method: str, access: Access) -> None:
    role = Role(world, path, method)
    assert is_refused(role.nobody())
    response = role.user(world.bob)
    assert response.status_code not in {401, 404, 405, 500}
    assert MARK not in text_of(response).lower()


@pytest.mark.parametrize(("path", "method", "access"), [call for call in CALLS if call[2] is Access.GATEWAY])
def test_the_gateway_takes_no_call_without_a_user(world: World, path: str, method: str, access: Access) -> None:
    role = Role(world, path, method)
    for response in (role.nobody(), role.call(Client(), world.worker_token), role.call(Client(), world.run_token)):
        assert is_refused(response)


@pytest.mark.parametrize(("path", "method", "access"), [call for call in CALLS if call[2] is Access.OPEN])
def test_what_is_open_shows_nothing_private(world: World, path: str, method: str, access: Access) -> None:
    role = Role(world, path, method)
    for response in (role.nobody(), role.user(world.bob), role.call(Client(), world.worker_token)):
        assert response.status_code not in {405, 500}
        assert MARK not in text_of(response).lower().replace(role.url.lower(), "")


@pytest.mark.parametrize(("path", "method", "access"), [call for call in CALLS if call[2] is Access.WORKER])
def test_what_workers_call_is_for_workers(world: World, path: str, method: str, access: Access) -> None:
    role = Role(world, path, method)
    others = [role.nobody(), role.call(Client(), world.run_token), *(role.user(u) for u in (world.alice, world.root))]
    assert all(is_refused(response) for response in others)
    assert not is_refused(role.call(Client(), world.worker_token))


ATTEMPT_CALLS = [call for call in CALLS if call[2] in {Access.RUN, Access.EVALUATION, Access.TRAINING}]


@pytest.mark.parametrize(("path", "method", "access"), ATTEMPT_CALLS)
def test_what_an_attempt_reports_is_for_this_attempt(world: World, path: str, method: str, access: Access) -> None:
    role = Role(world, path, method)
    tokens = (world.worker_token, world.foreign_run_token)
    others = [role.nobody(), *(role.call(Client(), token) for token in tokens), role.user(world.alice)]
    assert [response.status_code for response in others if not is_refused(response)] == []
    own = {Access.EVALUATION: world.evaluation_token, Access.TRAINING: world.training_token}
    token = own.get(access, world.run_token)
    assert role.call(Client(), token).status_code not in {401, 403, 405, 500}


@pytest.mark.parametrize(("path", "method", "access"), [call for call in CALLS if call[2] is Access.ANY_RUN])
def test_what_runs_share_is_for_runs(world: World, path: str, method: str, access: Access) -> None:
    role = Role(world, path, method)
    others = [role.nobody(), role.call(Client(), world.worker_token), role.user(world.alice), role.user(world.root)]
    assert [response.status_code for response in others if not is_refused(response)] == []


@pytest.mark.parametrize(("path", "method", "access"), [call for call in CALLS if call[2] is Access.SHARED])
def test_what_all_users_and_runs_share_is_not_for_nobody(world: World, path: str, method: str, access: Access) -> None:
    role = Role(world, path, method)
    assert is_refused(role.nobody())
    for response in (role.user(world.bob), role.call(Client(), world.run_token)):
        assert response.status_code not in {401, 403, 405, 500}


@pytest.mark.parametrize(("path", "method", "access"), [call for call in CALLS if call[2] is Access.ADMINISTRATOR])
def test_what_administrators_do_takes_the_right_and_the_scope(
    world: World, path: str, method: str, access: Access
) -> None:
    role = Role(world, path, method)
    others = [role.nobody(), role.user(world.alice), role.call(Client(), world.worker_token)]
    if path.startswith(API):
        others.append(role.user(world.root, Scope.READ, Scope.WRITE))
    assert [response.status_code for response in others if not is_refused(response)] == []
    assert role.user(world.root).status_code not in {401, 403, 405, 500}


TOKEN_CALLS = [
    call
    for call in CALLS
    if call[0].startswith((*API, "index/"))
    and call[0] != "api/v1/me"
    and call[2] in {Access.PRIVATE, Access.SIGNED_IN, Access.PERSONAL}
]


@pytest.mark.parametrize(("path", "method", "access"), TOKEN_CALLS)
def test_a_token_does_only_what_its_scopes_say(world: World, path: str, method: str, access: Access) -> None:
    role = Role(world, path, method)
    lesser = Scope.INFERENCE if method in SAFE else Scope.READ
    assert role.user(world.alice, lesser).status_code == 403
