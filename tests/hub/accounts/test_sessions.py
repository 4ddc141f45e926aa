"""The list of one's sessions, and signing out everywhere else."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from hub.accounts.models import SignIn, User
from hub.accounts.services import create_login_link, forget_old_sessions
from tests.factories.accounts import bearer, make_token, make_user

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
LINUX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
PAGE = "/settings/account/sessions"


@pytest.fixture
def ada() -> User:
    return make_user("ada", password=PASSWORD)


def signed_in(ada: User, agent: str = LINUX) -> Client:
    client = Client(headers={"User-Agent": agent})
    assert client.post("/login", {"username": "ada", "password": PASSWORD}).status_code == 302
    return client


def is_in(client: Client) -> bool:
    return client.get("/settings/tokens").status_code == 200


def test_every_way_to_sign_in_is_listed(ada: User) -> None:
    here, there = signed_in(ada), Client(headers={"User-Agent": "curl/8"})
    there.post(create_login_link(user=ada).partition(":8000")[2])
    html = here.get(PAGE).content.decode()
    assert ("Firefox on Linux" in html, "curl/8" in html, html.count("this one")) == (True, True, 1)
    assert "curl" not in Client().get(PAGE, follow=True).content.decode()


def test_signing_out_elsewhere_ends_all_others_also_those_that_are_not_noted(ada: User) -> None:
    here, noted, old = signed_in(ada), signed_in(ada), signed_in(ada)
    SignIn.objects.filter(session_key=old.session.session_key).delete()
    token = bearer(make_token(ada))
    assert "signed out everywhere else" in here.post(PAGE, follow=True).content.decode()
    assert [is_in(client) for client in (here, noted, old)] == [True, False, False]
    assert here.get(PAGE).content.decode().count("Firefox on Linux") == 1
    assert Client().get("/api/v1/me", headers=token).status_code == 200
    assert is_in(signed_in(ada)), "who signs in again is in"


def test_a_session_that_changes_the_password_stays_in_the_list(ada: User) -> None:
    here = signed_in(ada)
    here.post("/settings/password", {"current": PASSWORD, "new": "another good battery"})
    assert is_in(here)
    assert here.get(PAGE).content.decode().count("this one") == 1


def test_what_has_ended_is_not_listed_and_forgotten(ada: User) -> None:
    here, gone = signed_in(ada), signed_in(ada)
    gone.post("/logout")
    assert here.get(PAGE).content.decode().count("Firefox on Linux") == 1
    Session.objects.update(expire_date=timezone.now() - timedelta(days=1))
    forget_old_sessions(now=timezone.now())
    assert not SignIn.objects.filter(session_key=here.session.session_key).exists()
