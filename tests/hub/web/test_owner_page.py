"""The pages of owners: what the viewer may see, nothing else, and never in place of an address of the hub."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from hub.accounts.models import Role
from hub.accounts.services.users import RESERVED_SLUGS
from tests.factories.accounts import make_owner, make_user
from tests.factories.catalog import create_endpoint
from tests.factories.evals import create_hosted
from tests.factories.registry import create_environments

pytestmark = pytest.mark.django_db


def test_an_owner_shows_what_the_viewer_may_see(client: Client) -> None:
    alice = make_user("alice")
    create_environments(alice.owner, 1)
    create_hosted(alice)
    create_endpoint(alice, "secret-model", base_url="http://127.0.0.1:9/v1")
    text = client.get("/alice").content.decode()
    assert "env-0" in text
    assert "secret-model" not in text
    assert "alice/stub" not in text  # of the private evaluation
    client.force_login(alice)
    text = client.get("/alice").content.decode()
    assert "secret-model" in text
    assert "alice/stub" in text


def test_who_has_nothing_to_show_looks_like_nobody(client: Client) -> None:
    team = make_owner("quiet-team", members=[make_user("alice")], role=Role.OWNER)
    create_environments(team, 2, private=True)
    client.force_login(make_user("bob"))
    hidden, absent = client.get("/quiet-team"), client.get("/absent-team")
    assert (hidden.status_code, absent.status_code) == (404, 404)
    texts = [re.sub(r'value="\w{64}"|(quiet|absent)-team', "", reply.content.decode()) for reply in (hidden, absent)]
    assert texts[0] == texts[1]


def test_members_of_a_team_are_listed_for_members_alone(client: Client) -> None:
    team = make_owner("open-team", members=[make_user("alice"), make_user("zoe")])
    create_environments(team, 1)
    assert "zoe" not in client.get("/open-team").content.decode()
    client.force_login(make_user("root-user", is_superuser=True))
    assert "zoe" in client.get("/open-team").content.decode()


def test_no_owner_can_have_the_name_of_an_address_of_the_hub(client: Client) -> None:
    assert first_parts(get_resolver().url_patterns) - RESERVED_SLUGS == set()
    admin = make_user("admin", is_superuser=True)
    create_environments(admin.owner, 1)
    assert client.get("/admin").status_code == 404
    assert "env-0" in client.get("/owners/admin").content.decode()
    assert 'href="/owners/admin"' in client.get("/environments").content.decode()
    assert client.get("/owners/alice").headers["Location"] == "/alice"


def first_parts(patterns: list[URLPattern | URLResolver]) -> set[str]:
    """What addresses begin with, where an owner's name might stand."""
    routes = (str(one.pattern).lstrip("^") for one in patterns)
    return {part for part in (re.split(r"[/(<\\$]", route)[0] for route in routes) if part}
