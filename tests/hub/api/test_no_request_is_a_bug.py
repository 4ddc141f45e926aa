"""Whatever is sent to whatever route, by whomever: the answer is never a 500. All objects that a route names exist.

The quick form sends the same requests each time; the long one (`make test-matrix`, ATTACK_SECONDS) new ones.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from django.core.signals import got_request_exception
from django.db import transaction
from django.test import Client
from django.urls.resolvers import RegexPattern
from django.utils.regex_helper import normalize
from envhub.protocol.accounts.users import Scope
from pytest_django import DjangoDbBlocker

from tests.factories.accounts import bearer, make_token
from tests.hub.api.access import Access
from tests.hub.api.attacks import FORM, JSON, QUERIES, Attack, a_form, an_attack, answer_checker, body_schema, schema
from tests.hub.api.rights import RIGHTS, body_of, kwargs_of
from tests.hub.api.test_every_route_as_every_role import ROUTES
from tests.hub.api.world import World, make_world

QUICK = 2  # times every operation
CALLS = [(path, method, access) for path, methods in RIGHTS.items() for method, access in methods.items()]
MACHINES = ("api/", "prime/api/", "inference/", "hf/", "index/")
FIELDS = (
    *("username", "password", "code", "user_code", "decision", "name", "value", "owner", "model", "base_url", "kind"),
    *("toml", "visibility", "timeout_s", "api_key", "expires_in_days", "scopes", "next", "is_admin", "new_password1"),
    *QUERIES,
)
ROLES = ("nobody", "alice", "bob", "root", "run", "training", "worker")
RIGHTFUL = {
    Access.ADMINISTRATOR: "root",
    Access.WORKER: "worker",
    Access.RUN: "run",
    Access.ANY_RUN: "run",
    Access.TRAINING: "training",
}  # who gets through; else alice does


class Callers:
    """Sends requests as every role; what they write is undone."""

    def __init__(self, world: World) -> None:
        self.world = world
        users = {"alice": world.alice, "bob": world.bob, "root": world.root}
        scopes = [Scope.READ, Scope.WRITE, Scope.INFERENCE]
        self._tokens = {
            name: make_token(user, *scopes, *([Scope.ADMIN] if user.is_superuser else []))
            for name, user in users.items()
        }
        self._tokens |= {"worker": world.worker_token, "run": world.run_token, "training": world.training_token}
        self._sessions = {name: Client(raise_request_exception=False) for name in ROLES}
        for name, user in users.items():
            self._sessions[name].force_login(user)
        self._bare = Client(raise_request_exception=False)
        self.sent: Counter[tuple[str, str, int]] = Counter()
        self.bugs: dict[str, str] = {}  # by where they are
        self._raised: list[Any] = []
        got_request_exception.connect(self._note)

    def _note(self, **_: Any) -> None:
        self._raised.append(sys.exc_info()[1])

    def send(self, role: str, path: str, method: str, attack: Attack) -> None:
        """Notes it when the answer is a 500."""
        by_token = role in self._tokens and path.startswith(MACHINES)
        headers = {**(bearer(self._tokens[role]) if by_token else {}), **attack.headers}
        client = self._bare if by_token else self._sessions[role]
        self._raised.clear()
        with transaction.atomic():
            cookies = client.cookies.copy()
            response: Any = client.generic(
                method.upper(), attack.path, attack.content, content_type=attack.content_type, headers=headers
            )
            if response.streaming and not response.is_async:
                b"".join(response.streaming_content)
            client.cookies = cookies
            self._check_schema(role, path, method, attack, response)
            transaction.set_rollback(True)
        self.sent[role, f"{method} {path}", response.status_code] += 1
        if response.status_code == 500:
            error = self._raised[0] if self._raised else None
            where = traceback.extract_tb(error.__traceback__)[-1] if error else ""
            told = "".join(traceback.format_exception(error))[-3000:] if error else ""
            self.bugs.setdefault(f"{type(error).__name__} {where}", f"{role}: {method} {str(attack)[:2000]}\n{told}")

    def _check_schema(self, role: str, path: str, method: str, attack: Attack, response: Any) -> None:
        """Notes it when an answer is other than the OpenAPI schema says."""
        if response.status_code in {404, 405, 406} or response.get("Content-Type") != JSON:
            return  # of another route, where an argument was spoiled
        template = "/" + template_of(path)[0]
        if method not in schema()["paths"].get(template, {}):
            return
        checker = answer_checker(template, method, response.status_code)
        problem = (
            "no answer has this status"
            if checker is None
            else next(
                (f"{list(error.absolute_path)}: {error.message}" for error in checker.iter_errors(response.json())), ""
            )
        )
        if problem:
            name = f"{method} {template} {response.status_code}"
            self.bugs.setdefault(f"schema of {name}", f"{role}: {name}: {problem[:500]}\n{str(attack)[:500]}")

    def report(self) -> str:
        """Each bug once."""
        return "\n\n".join(self.bugs.values())

    def summary(self) -> str:
        """How much was sent."""
        roles = Counter[str]()
        routes: dict[str, set[str]] = {}
        statuses = Counter[int]()
        for (role, route, status), count in self.sent.items():
            roles[role] += count
            statuses[status] += count
            routes.setdefault(role, set()).add(route)
        lines = [f"{role}: {roles[role]} requests over {len(routes[role])} operations" for role in roles]
        return "\n".join([*lines, f"statuses: {dict(sorted(statuses.items()))}", f"all: {roles.total()}"])


def template_of(path: str) -> tuple[str, list[str]]:
    """The route with {name} for its arguments, and their names."""
    pattern = ROUTES[path].pattern
    if isinstance(pattern, RegexPattern):
        template, names = normalize(path)[-1]
        return str(template) % {name: f"{{{name}}}" for name in names}, list(names)
    for name in pattern.converters:
        start, end = path.rindex("<", 0, path.index(f"{name}>")), path.index(f"{name}>") + len(name) + 1
        path = f"{path[:start]}{{{name}}}{path[end:]}"
    return path, list(pattern.converters)


def storm(callers: Callers, dice: Random) -> None:
    """One request to each operation, half of them by who may send it."""
    for path, method, access in CALLS:
        template, names = template_of(path)
        known = kwargs_of(callers.world, path)
        body, shape = body_of(callers.world, path, method), body_schema("/" + template, method)
        attack = an_attack(dice, template, {name: known[name] for name in names}, body, shape)
        if not path.startswith(MACHINES) and method == "post" and dice.random() < 0.9:
            attack.content, attack.content_type = a_form(dice, FIELDS), FORM
        role = RIGHTFUL.get(access, "alice") if dice.random() < 0.5 else dice.choice(ROLES)
        callers.send(role, path, method, attack)


@pytest.fixture(scope="module")
def callers(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Callers]:
    """One world for all requests."""
    with django_db_blocker.unblock(), transaction.atomic():
        logging.disable(logging.ERROR)  # thousands of refusals
        yield Callers(make_world())
        logging.disable(logging.NOTSET)
        transaction.set_rollback(True)


@pytest.mark.django_db
def test_no_request_is_a_bug(callers: Callers) -> None:
    for number in range(QUICK):
        storm(callers, Random(number))
    assert callers.bugs == {}, callers.report()


@pytest.mark.matrix
@pytest.mark.django_db
def test_no_request_is_a_bug_however_many_are_sent(callers: Callers, capsys: pytest.CaptureFixture[str]) -> None:
    until = time.monotonic() + float(os.environ.get("ATTACK_SECONDS", "600"))
    number = first = int(os.environ.get("ATTACK_SEED", str(time.time_ns())))
    while time.monotonic() < until:
        storm(callers, Random(number))
        number += 1
    with capsys.disabled():
        print(f"\nseeds {first} to {number - 1}\n{callers.summary()}")
    assert callers.bugs == {}, callers.report()
