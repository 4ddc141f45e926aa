"""Archived environments: read as before, changed by nothing, and left out of the list."""

from __future__ import annotations

import pytest
from django.test import Client

from hub.accounts.models import Membership, Role, User
from hub.core.errors import Conflict
from hub.evals.services import create_evaluation
from tests.factories.accounts import make_user
from tests.factories.catalog import create_endpoint
from tests.factories.evals import create_pushed, make_config
from tests.factories.registry import build_pair, create_ready_version, push_pair
from tests.hub.registry.api_client import call

pytestmark = pytest.mark.django_db
ENVIRONMENT = "environments/alice/tiny-env"


@pytest.fixture
def alice() -> User:
    alice = make_user("alice")
    create_ready_version(alice)
    create_endpoint(alice, "stub")
    assert call(alice, "put", f"{ENVIRONMENT}/archive").json()["archived"] is True
    return alice


def names(query: str = "") -> list[str]:
    return [item["name"] for item in call(None, "get", f"environments{query}").json()["items"]]


def test_what_is_archived_is_read_and_left_out_of_the_list(alice: User, client: Client) -> None:
    assert (names(), names("?archived=yes")) == ([], ["tiny-env"])
    assert "tiny-env" not in client.get("/environments").content.decode()
    assert "tiny-env" in client.get("/environments?archived=yes").content.decode()
    assert "<strong>Archived.</strong>" in client.get(f"/{ENVIRONMENT}").content.decode()
    assert call(None, "get", f"{ENVIRONMENT}/versions/0.1.0/download/wheel").status_code == 302


def test_nothing_changes_what_is_archived(alice: User) -> None:
    for method, path, body in (
        ("patch", ENVIRONMENT, {"description": "new"}),
        ("patch", f"{ENVIRONMENT}/versions/0.1.0/yank", {"yanked": True}),
        ("delete", f"{ENVIRONMENT}/versions/0.1.0", None),
        ("post", f"{ENVIRONMENT}/versions/0.1.0/rebuild", None),
        ("post", f"{ENVIRONMENT}/versions/0.1.0/check", {}),
    ):
        reply = call(alice, method, path, body)
        assert (path, reply.status_code, reply.json()["error"]["code"]) == (path, 409, "archived")
    with pytest.raises(Conflict, match="archived"):
        push_pair(alice, build_pair("tiny-env", "0.2.0"))
    with pytest.raises(Conflict, match="archived"):
        create_evaluation(user=alice, owner=alice.owner, config=make_config("alice/tiny-env", "alice/stub"))
    with pytest.raises(Conflict, match="archived"):
        create_pushed(alice, "alice/tiny-env")


def test_admins_alone_archive_and_take_back(alice: User, client: Client) -> None:
    bob = make_user("bob")
    Membership.objects.create(owner=alice.owner, user=bob, role=Role.MEMBER)
    assert call(bob, "delete", f"{ENVIRONMENT}/archive").status_code == 403
    client.force_login(bob)
    assert client.post(f"/{ENVIRONMENT}/archive", {"archived": "no"}).status_code == 403
    client.force_login(alice)
    assert client.post(f"/{ENVIRONMENT}/archive", {"archived": "no"}).status_code == 302
    assert names() == ["tiny-env"]
    push_pair(alice, build_pair("tiny-env", "0.2.0"))
