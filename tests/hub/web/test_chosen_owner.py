"""The owner that is chosen in the header: forms begin with it, rights stay as they are."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from hub.accounts.models import Membership, Owner, Role, User
from tests.factories.accounts import make_owner, make_user
from tests.factories.catalog import create_endpoint
from tests.factories.registry import create_environments, create_ready_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> User:
    return make_user("ada")


@pytest.fixture
def lab(ada: User) -> Owner:
    return make_owner("lab", members=[ada], role=Role.MAINTAINER)


@pytest.fixture
def browser(ada: User, lab: Owner) -> Client:
    client = Client()
    client.force_login(ada)
    return client


def choose(browser: Client, owner: str, back: str = "") -> str:
    reply = browser.post("/settings/acting", {"owner": owner, "next": back})
    return reply["Location"] if reply.status_code == 302 else str(reply.status_code)


def chosen(browser: Client, path: str) -> list[str]:
    """What the selects and hidden fields of the page begin with, of the owners."""
    html = browser.get(path).content.decode()
    return re.findall(r'<option(?: value="lab")? selected>(lab)|name="owner" value="(lab)"', html)


def test_a_choice_leads_back_to_where_it_was_made(browser: Client) -> None:
    assert choose(browser, "lab", "/settings/secrets?owner=ada&x=1") == "/settings/secrets?x=1"
    assert choose(browser, "lab", "https://example.org/") == "/"
    assert ">lab</span>" in browser.get("/").content.decode()
    assert choose(browser, "ada") == "/"
    assert ">ada</span>" in browser.get("/").content.decode()


def test_the_menu_has_the_person_and_their_teams(browser: Client) -> None:
    choose(browser, "lab")
    headers = {"HX-Request": "true", "HX-Target": "owners", "HX-Current-URL": "http://testserver/models?owner=x"}
    html = browser.get("/settings/acting", headers=headers).content.decode()
    assert re.findall(r'name="owner" value="(\w+)"( aria-current="true")?>', html) == [
        ("ada", ""),
        ("lab", ' aria-current="true"'),
    ]
    assert 'name="next" value="/models?owner=x"' in html
    assert "<h1" not in html


PAGES = ["/environments/new", "/models", "/settings/secrets", "/settings/webhooks", "/settings/links", "/training/new"]


@pytest.mark.parametrize("path", [*PAGES, "/environments/ada/tiny-env/evaluate", "/environments/ada/tiny-env/fork"])
def test_forms_begin_with_the_chosen_owner(browser: Client, ada: User, path: str) -> None:
    create_ready_version(ada)
    create_endpoint(ada, "stub")
    assert chosen(browser, path) == []
    choose(browser, "lab")
    assert chosen(browser, path)


def test_the_start_shows_the_environments_of_the_chosen_owner(browser: Client, ada: User, lab: Owner) -> None:
    create_environments(lab, 1)
    create_ready_version(ada)
    assert 'href="/environments/ada/tiny-env"' in browser.get("/").content.decode()
    choose(browser, "lab")
    html = browser.get("/").content.decode()
    assert "Environments of lab" in html
    assert 'href="/environments/ada/tiny-env"' not in html


def test_what_a_form_leaves_out_is_the_users(browser: Client) -> None:
    choose(browser, "lab")
    browser.post("/settings/secrets", {"name": "KEY", "value": "x"})
    assert [secret.owner.slug for secret in User.objects.get().owner.secrets.all()] == ["ada"]


def test_a_choice_gives_no_rights_and_ends_with_the_membership(browser: Client, ada: User, lab: Owner) -> None:
    make_owner("others", members=[make_user("bob")])
    assert choose(browser, "others") == "422"
    choose(browser, "lab")
    Membership.objects.filter(user=ada, owner=lab).update(role=Role.READER)
    assert chosen(browser, "/environments/new") == []  # readers push nothing
    assert browser.get("/settings/secrets").status_code == 200  # of their own
    Membership.objects.filter(user=ada, owner=lab).delete()
    assert ">ada</span>" in browser.get("/").content.decode()


def test_the_start_of_a_team_without_environments_says_how_to_push_one(browser: Client) -> None:
    choose(browser, "lab")
    html = browser.get("/").content.decode()
    assert "hub push my-env --team lab" in html
    assert "Add a sample environment" not in html
