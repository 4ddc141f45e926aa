"""A token for one owner: it sees and changes what is that owner's, and nothing else of its user."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from envhub.protocol.accounts.users import Scope

from hub.accounts.models import ApiToken, Membership, Owner, Role, User
from hub.accounts.queries import member_owners, role_of, visible_owners
from hub.accounts.services import create_token
from hub.core.errors import NotAllowed
from hub.registry.models import Environment
from tests.factories.accounts import bearer, make_owner, make_token, make_user
from tests.factories.evals import create_hosted
from tests.factories.registry import create_environments

pytestmark = pytest.mark.django_db
JSON = "application/json"


@pytest.fixture
def ada() -> User:
    return make_user("ada")


@pytest.fixture
def lab(ada: User) -> Owner:
    return make_owner("lab", members=[ada], role=Role.MAINTAINER)


@pytest.fixture
def headers(ada: User, lab: Owner) -> dict[str, str]:
    scopes = (Scope.READ, Scope.WRITE, Scope.INFERENCE)
    return bearer(create_token(user=ada, name="ci", scopes=scopes, owner=lab)[0])


def call(method: str, path: str, headers: dict[str, str], body: object = None) -> Any:
    return getattr(Client(), method)(f"/api/v1/{path}", body, content_type=JSON, headers=headers)


def test_it_sees_the_private_things_of_its_owner_alone(ada: User, lab: Owner, headers: dict[str, str]) -> None:
    create_environments(lab, 1, private=True)
    evaluation = create_hosted(ada)
    Environment.objects.update(visibility="private")
    listed = Client().get("/api/v1/environments", headers=headers).json()["items"]
    assert {item["owner"] for item in listed} == {"lab"}
    assert Client().get(f"/api/v1/evaluations/{evaluation.pk}", headers=headers).status_code == 404
    assert Client().get("/api/v1/environments/ada/tiny-env", headers=headers).status_code == 404
    assert Client().get("/api/v1/runs", headers=headers).json()["items"] == []
    assert Client().get("/api/v1/me", headers=headers).json()["owners"] == ["lab"]
    assert [one["owner"] for one in Client().get("/api/v1/usage", headers=headers).json()["owners"]] == ["lab"]
    whole = bearer(make_token(ada))
    assert Client().get(f"/api/v1/evaluations/{evaluation.pk}", headers=whole).status_code == 200


def test_it_changes_what_is_its_owners_with_the_users_role(lab: Owner, headers: dict[str, str]) -> None:
    assert call("put", "secrets/lab/KEY", headers, {"value": "x"}).status_code in {200, 201}
    assert call("put", "secrets/ada/KEY", headers, {"value": "x"}).status_code == 404
    assert call("post", "sandboxes", headers, {}).status_code == 403  # for the user, who was named by nobody
    Membership.objects.update(role=Role.READER)
    assert call("put", "secrets/lab/KEY", headers, {"value": "x"}).status_code == 403
    Membership.objects.filter(owner=lab).delete()
    assert call("put", "secrets/lab/KEY", headers, {"value": "x"}).status_code == 404


PERSONAL = [
    ("get", "tokens", None),
    ("post", "tokens", {"name": "x"}),
    ("post", "teams", {"name": "another"}),
    ("post", "join", {"secret": "x"}),
    ("get", "notifications", None),
    ("post", "notifications/read", None),
]


@pytest.mark.parametrize(("method", "path", "body"), PERSONAL)
def test_what_concerns_the_person_is_refused(headers: dict[str, str], method: str, path: str, body: object) -> None:
    reply = call(method, path, headers, body) if body else getattr(Client(), method)(f"/api/v1/{path}", headers=headers)
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "token_limited")


def test_it_revokes_no_token(ada: User, headers: dict[str, str]) -> None:
    make_token(ada)
    assert Client().delete(f"/api/v1/tokens/{ApiToken.objects.latest('pk').pk}", headers=headers).status_code == 403
    assert not ApiToken.objects.filter(revoked_at__isnull=False).exists()


def test_an_administrators_is_one_members(lab: Owner) -> None:
    root = make_user("root-user", is_superuser=True)
    with pytest.raises(NotAllowed, match="cannot have the scope admin"):
        create_token(user=root, name="x", scopes=(Scope.ADMIN,), owner=lab)
    root.only_owner = lab.pk
    assert not root.is_administrator
    assert not visible_owners(root).exists()
    assert not member_owners(root, Role.READER).exists()
    assert role_of(root, lab) is None


def test_a_member_makes_one_over_rest_and_on_the_page(ada: User, lab: Owner, client: Client) -> None:
    made = call("post", "tokens", bearer(make_token(ada)), {"name": "ci", "owner": "lab"})
    assert made.json()["view"]["owner"] == "lab"
    make_owner("others")
    assert call("post", "tokens", bearer(make_token(ada)), {"name": "ci", "owner": "others"}).status_code == 404
    client.force_login(ada)
    form = {"name": "page", "days": "30", "scopes": ["read"]}
    assert "only lab" in client.post("/settings/tokens", form | {"owner": "lab"}).text
    assert ApiToken.objects.get(name="page").owner == lab
    assert client.post("/settings/tokens", form | {"owner": "others"}).status_code == 404
    client.post("/settings/acting", {"owner": "lab"})
    assert '<option value="lab" selected>' in client.get("/settings/tokens").text
    lab.delete()
    assert not ApiToken.objects.filter(name="page").exists()
