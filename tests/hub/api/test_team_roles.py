"""What each role in a team may do with what the team owns, over REST, the index and the gateway's own lookup."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from envhub.protocol.evals.evaluations import EvaluationConfig
from pytest_django import DjangoDbBlocker

from hub.accounts.models import Membership, Owner, Role, User
from hub.accounts.services import add_member, create_team, remove_member
from hub.catalog.services import register_endpoint
from hub.core.errors import NotFound
from hub.evals.models import Evaluation
from hub.evals.services import create_evaluation
from hub.evals.wire import eval_payload
from hub.inference.routing import find_route
from hub.registry.models import Environment
from hub.secrets.services import set_secret
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.catalog import endpoint_request
from tests.factories.registry import build_pair, create_ready_version
from tests.factories.training_runs import create_trainable

pytestmark = pytest.mark.django_db
RANK = ("stranger", "reader", "member", "maintainer", "owner")


@dataclass(frozen=True)
class Acme:
    """A team with one of everything, and a user of each role."""

    team: Owner
    people: dict[str, User]
    tokens: dict[str, str]
    evaluation: Evaluation


@pytest.fixture(scope="module")
def acme(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Acme]:
    with django_db_blocker.unblock(), transaction.atomic():
        yield make_acme()
        transaction.set_rollback(True)


def make_acme() -> Acme:
    people = {name: make_user(f"the-{name}") for name in RANK}
    owner, member = people["owner"], people["member"]
    team = create_team(user=owner, slug="acme")
    for role in (Role.READER, Role.MEMBER, Role.MAINTAINER):
        add_member(user=owner, team=team, name=people[role].username, role=role)
    version = create_ready_version(owner, "adder")
    Environment.objects.filter(pk=version.environment_id).update(owner=team, visibility="private")
    register_endpoint(user=member, owner=team, request=endpoint_request("stub"))
    create_trainable(team, "base")
    set_secret(owner=team, name="KEY", value="value", user=owner)
    config = EvaluationConfig(environment="acme/adder", model="acme/stub", judges={"judge": "acme/stub"})
    evaluation = create_evaluation(user=member, owner=team, config=config)
    return Acme(team, people, {name: make_token(user) for name, user in people.items()}, evaluation)


PUSH = build_pair("adder", "0.2.0").request().model_dump(mode="json")
MODEL = endpoint_request("other").model_dump(mode="json")
CONFIG = {"environment": "acme/adder", "model": "acme/stub"}
TRAINING = {"config": {"model": "acme/base", "env": [{"id": "acme/adder"}], "max_steps": 1}}
# (least role, method, path, body)
CALLS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("reader", "get", "environments/acme/adder", {}),
    ("reader", "get", "environments/acme/adder/versions/latest/lock", {}),
    ("reader", "get", "models/acme/stub", {}),
    ("reader", "get", "evaluations/EVALUATION", {}),
    ("reader", "get", "teams/acme/members", {}),
    ("member", "get", "secrets/acme", {}),
    ("member", "post", "environments/acme/adder/pushes", PUSH),
    ("member", "patch", "environments/acme/adder", {"visibility": "public"}),
    ("member", "post", "blobs", {"owner": "acme", "blobs": []}),
    ("member", "post", "evaluations?owner=acme", CONFIG),
    ("member", "post", "evaluations/EVALUATION/cancel", {}),
    ("member", "post", "training?owner=acme", TRAINING),
    ("member", "put", "models/acme/other", MODEL),
    ("member", "post", "sandboxes", {"owner": "acme"}),
    ("maintainer", "put", "secrets/acme/OTHER", {"value": "x"}),
    ("maintainer", "delete", "environments/acme/adder/versions/0.1.0", {}),
    ("maintainer", "post", "environments/acme/adder/move", {"name": "other"}),
    ("maintainer", "put", "environments/acme/adder/archive", {}),
    ("maintainer", "get", "webhooks?owner=acme", {}),
    ("maintainer", "get", "teams/acme/invitations", {}),
    ("maintainer", "post", "teams/acme/invitations", {}),
    ("maintainer", "post", "teams/acme/members", {"user": "the-stranger"}),
    ("maintainer", "patch", "teams/acme/members/the-reader", {"role": "member"}),
    ("owner", "post", "teams/acme/members", {"user": "the-stranger", "role": "maintainer"}),
    ("owner", "post", "teams/acme/invitations", {"role": "owner"}),
    ("owner", "patch", "teams/acme/members/the-maintainer", {"role": "member"}),
    ("owner", "get", "audit?owner=acme", {}),
    ("owner", "patch", "teams/acme", {"display_name": "x"}),
    ("owner", "delete", "teams/acme", {}),
]


def call(acme: Acme, name: str, method: str, path: str, body: dict[str, Any]) -> int:
    """The status; what it wrote is undone."""
    url = f"/api/v1/{path.replace('EVALUATION', str(acme.evaluation.pk))}"
    headers = bearer(acme.tokens[name])
    sent = {} if method == "get" else {"data": body, "content_type": "application/json"}
    with transaction.atomic():
        try:
            status: int = getattr(Client(), method)(url, headers=headers, **sent).status_code
            return status
        finally:
            transaction.set_rollback(True)


@pytest.mark.parametrize(("least", "method", "path", "body"), CALLS)
def test_a_role_does_what_it_is_for(acme: Acme, least: str, method: str, path: str, body: dict[str, Any]) -> None:
    said = {name: call(acme, name, method, path, body) for name in RANK}
    enough = RANK.index(least)
    assert said["stranger"] == 404
    assert {said[name] for name in RANK[1:enough]} <= {403}
    assert all(said[name] in {200, 201, 202, 204, 409} for name in RANK[enough:]), said


def index_of(token: str) -> int:
    credentials = "Basic " + base64.b64encode(f"x:{token}".encode()).decode()
    return Client().get("/index/acme/simple/adder/", headers={"Authorization": credentials}).status_code


def test_the_teams_index_and_models_are_for_its_members(acme: Acme) -> None:
    assert [index_of(acme.tokens[name]) for name in RANK] == [404, 200, 200, 200, 200]
    assert find_route(acme.people["reader"], "acme/stub").model == "acme/stub"
    with pytest.raises(NotFound):
        find_route(acme.people["stranger"], "acme/stub")


def test_a_team_has_its_own_storage_and_usage(acme: Acme) -> None:
    for name, seen in (("reader", True), ("stranger", False)):
        reply = Client().get("/api/v1/usage", headers=bearer(acme.tokens[name])).json()
        assert ("acme" in {one["owner"] for one in reply["owners"]}) is seen
    client = Client()
    client.force_login(acme.people["reader"])
    assert "acme" in client.get("/settings/storage").text


@pytest.mark.parametrize("path", ["runs", "models", "environments", "evaluations", "training", "sandboxes"])
def test_lists_are_narrowed_to_a_team_whose_things_strangers_do_not_see(acme: Acme, path: str) -> None:
    client = Client()
    for name, others in (("member", False), ("stranger", True)):
        client.force_login(acme.people[name])
        text = client.get(f"/{path}?owner=acme").text
        assert client.get(f"/{path}?owner=acme").status_code == 200
        assert not ("acme/stub" in text or "acme/adder" in text) or not others


def test_who_is_removed_loses_access_at_once_and_the_teams_work_goes_on(acme: Acme) -> None:
    with transaction.atomic():
        member, run = acme.people["member"], acme.evaluation.run
        remove_member(user=acme.people["owner"], team=acme.team, name=member.username)
        assert not Membership.objects.filter(user=member, owner=acme.team).exists()
        assert Client().get("/api/v1/models/acme/stub", headers=bearer(acme.tokens["member"])).status_code == 404
        assert index_of(acme.tokens["member"]) == 404
        assert run is not None
        payload = eval_payload(run)
        assert (payload.target.model, set(payload.judges)) == ("acme/stub", {"judge"})
        transaction.set_rollback(True)
