"""Stars: whoever sees an environment may star it, once, and lists can be ordered by them."""

from __future__ import annotations

import pytest
from django.test import Client

from hub.accounts.models import User
from hub.registry.models import Environment
from tests.factories.accounts import make_user
from tests.factories.registry import create_environments, push_version
from tests.hub.registry.api_client import call

pytestmark = pytest.mark.django_db
STAR = "environments/alice/env-0/star"


@pytest.fixture
def alice() -> User:
    alice = make_user("alice")
    create_environments(alice.owner, 3)
    return alice


def stars(name: str = "env-0") -> int:
    return Environment.objects.get(name=name).stars


def test_a_star_counts_once_and_can_be_taken_back(alice: User) -> None:
    bob = make_user("bob")
    for user in (alice, bob, bob):
        assert call(user, "put", STAR).json()["stars"] == stars()
    assert stars() == 2
    for _ in range(2):
        assert call(bob, "delete", STAR).status_code == 204
    assert stars() == 1
    assert call(None, "put", STAR).status_code == 401


def test_the_page_stars_with_htmx_and_with_a_plain_form(alice: User, client: Client) -> None:
    client.force_login(alice)
    button = client.post(f"/{STAR}", {"starred": "yes"}, headers={"HX-Request": "true"}).content.decode()
    assert 'aria-pressed="true"' in button
    assert 'value="no"' in button  # the next press takes it back
    assert client.post(f"/{STAR}", {"starred": "no"}).headers["Location"] == "/environments/alice/env-0"
    assert stars() == 0


def test_lists_are_ordered_and_narrowed_by_stars_page_by_page(alice: User) -> None:
    push_version(alice, "closed-env", private=True)
    bob = make_user("bob")
    for user, name in ((alice, "env-1"), (bob, "env-1"), (bob, "env-0"), (alice, "closed-env")):
        call(user, "put", f"environments/alice/{name}/star")
    seen, path = [], "environments?limit=1&sort=stars"
    while path:
        page = call(bob, "get", path).json()
        seen += [item["name"] for item in page["items"]]
        path = (page["next"] or "").partition("/api/v1/")[2]
    assert seen == ["env-1", "env-0", "env-2"]
    assert [item["name"] for item in call(bob, "get", "environments?starred=yes").json()["items"]] == ["env-1", "env-0"]
    for wrong in ("sort=random", "starred=maybe", "sort=stars&cursor=x,y", "sort=recent&cursor=1,2"):
        assert call(bob, "get", f"environments?{wrong}").status_code == 422
