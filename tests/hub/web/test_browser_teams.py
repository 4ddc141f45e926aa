"""A team from its making to what its member sees and a stranger does not, in a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client
from playwright.sync_api import expect
from pytest_django.live_server_helper import LiveServer

from hub.accounts.models import Owner, User
from hub.registry.models import Environment
from tests.factories.accounts import make_owner, make_user
from tests.factories.registry import build_pair, push_pair
from tests.hub.web.browser import Look, LookAt

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def look(live_server: LiveServer, look_at: LookAt) -> Iterator[Look]:
    with look_at(live_server.url) as found:
        yield found


def become(look: Look, user: User) -> None:
    client = Client()
    client.force_login(user)
    look.page.context.add_cookies(
        [{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": look.base_url}]
    )


def test_a_team_is_made_joined_and_sees_what_strangers_do_not(look: Look) -> None:
    ada, bob, mallory = (make_user(name) for name in ("ada", "bob", "mallory"))
    become(look, ada)
    look.open("/settings/teams")
    look.page.get_by_label("Name").fill("acme")
    look.page.get_by_role("button", name="Create team").click()
    expect(look.page.get_by_role("status")).to_contain_text("Created the team acme")
    look.page.get_by_role("button", name="Create link").click()
    link = look.page.locator("#team-link").inner_text()

    become(look, bob)
    look.open(link[link.index("/join/") :])
    look.page.get_by_role("button", name="Join team").click()
    expect(look.page.get_by_role("status")).to_contain_text("You have joined acme with the role member")

    push_pair(bob, build_pair("shared-env", "0.1.0"), owner=Owner.objects.get(slug="acme"))
    Environment.objects.update(visibility="private")
    look.open("/teams/acme")
    look.page.get_by_role("link", name="Environments", exact=True).last.click()
    expect(look.page.locator("#results .item")).to_contain_text("shared-env")
    become(look, mallory)
    look.open("/environments/acme/shared-env")
    expect(look.page.get_by_role("heading", level=1)).to_have_text("Page not found")
    assert [text for text in look.complaints if "404" not in text] == []


def test_the_owner_is_chosen_in_the_header_by_keyboard(live_server: LiveServer, look_at: LookAt) -> None:
    ada = make_user("ada")
    make_owner("a-team-with-quite-a-long-name-for-a-narrow-header", members=[ada])
    client = Client()
    client.force_login(ada)
    with look_at(live_server.url, session=client.cookies["sessionid"].value, width=360) as look:
        look.open("/environments/new")
        look.page.locator("summary.who").focus()
        look.page.keyboard.press("Enter")
        expect(look.page.locator(".owners__one")).to_have_count(2)
        assert (look.overflow(), look.barriers()) == (0, [])
        look.page.locator("summary.who").press("Tab")  # teams come in the order of their names
        assert look.page.evaluate("document.activeElement.innerText").startswith("ada") is False
        look.page.keyboard.press("Enter")
        expect(look.page.locator("#id_owner")).to_have_value("a-team-with-quite-a-long-name-for-a-narrow-header")
        assert (look.overflow(), look.complaints) == (0, [])
