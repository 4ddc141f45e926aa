"""Who may see an evaluation can be changed afterwards, by its owner's members."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from hub.accounts.models import User
from hub.evals.models import Evaluation
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.evals import create_hosted

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    return make_user("alice")


@pytest.fixture
def private(alice: User) -> Evaluation:
    return create_hosted(alice, visibility="private")


def patch(user: User, evaluation: Evaluation, **body: str) -> Any:
    path = f"/api/v1/evaluations/{evaluation.pk}"
    return Client().patch(path, body, content_type="application/json", headers=bearer(make_token(user)))


def status_for(user: User, evaluation: Evaluation) -> int:
    path = f"/api/v1/evaluations/{evaluation.pk}"
    return Client().get(path, headers=bearer(make_token(user))).status_code


def test_it_is_shared_and_hidden_again(alice: User, private: Evaluation) -> None:
    bob = make_user("bob")
    assert patch(alice, private, visibility="public").json()["visibility"] == "public"
    assert status_for(bob, private) == 200
    patch(alice, private, visibility="private")
    assert status_for(bob, private) == 404


def test_who_only_sees_it_cannot_hide_it(alice: User, private: Evaluation) -> None:
    patch(alice, private, visibility="public")
    assert patch(make_user("bob"), private, visibility="private").status_code == 403


def test_a_private_environment_still_hides_it(alice: User, private: Evaluation) -> None:
    patch(alice, private, visibility="public")
    private.environment.visibility = "private"
    private.environment.save(update_fields=["visibility"])
    assert status_for(make_user("bob"), private) == 404


def test_another_visibility_is_refused_by_name(alice: User, private: Evaluation) -> None:
    assert set(patch(alice, private, visibility="team").json()["error"]["fields"]) == {"visibility"}


def test_the_page_has_the_same_control(alice: User, private: Evaluation) -> None:
    client = Client()
    client.force_login(alice)
    page = f"/evaluations/{private.pk}"
    assert "Make public" in client.get(page).content.decode()
    html = client.post(f"{page}/share", {"visibility": "public"}, follow=True).content.decode()
    assert "Make private" in html
    assert "Make" not in Client().get(page).content.decode().split('class="stats"')[0]
