"""Who may make an account with a password: HUB_SIGNUP, invitations to teams, domains of mail."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.test import Client

from hub.accounts.models import Membership, Role, User
from hub.accounts.queries import get_owner
from hub.accounts.services import create_user, invite_to_team
from hub.core.errors import Conflict
from tests.factories.accounts import make_owner, make_user

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
FORM = {"username": "ada", "password1": PASSWORD}
Configure = Callable[..., None]


def invitation() -> str:
    admin = make_user()
    team = make_owner("lab", members=[admin], role=Role.OWNER)
    return invite_to_team(user=admin, team=team, role=Role.READER).url.removeprefix("http://127.0.0.1:8000")


def link_of_mail() -> str:
    (path,) = re.findall(r"http://127\.0\.0\.1:8000(/\S+)", str(mail.outbox[-1].body))
    return str(path)


@pytest.mark.parametrize("policy", ["closed", "invited"])
def test_a_hub_that_is_not_open_says_so_and_makes_no_account(client: Client, configure: Configure, policy: str) -> None:
    configure(signup=policy)
    assert "invitation-only" in client.get("/login").text
    assert "You need an invitation" in client.post("/signup", FORM).text
    assert "You need an invitation" in client.post("/signup?next=/join/wrong", FORM).text
    assert not User.objects.exists()


def test_the_start_offers_an_account_where_everybody_may_have_one(client: Client, configure: Configure) -> None:
    configure(signup="open")
    assert 'href="/signup"' in client.get("/").text
    configure(signup="closed")
    assert 'href="/signup"' not in client.get("/").text


def test_the_first_visitor_is_told_where_the_first_link_is(client: Client) -> None:
    user = make_user()
    assert "Nobody has signed in to this hub yet" in client.get("/login").text
    Client().force_login(user)
    assert "Nobody has signed in" not in client.get("/login").text


def test_domains_that_no_mail_can_confirm_are_the_providers_alone(client: Client, configure: Configure) -> None:
    configure(signup="open", signup_domains=["example.org"], oidc_issuer="http://127.0.0.1:9")
    assert "Create one" not in client.get("/login").text
    assert "You need an invitation" in client.post("/signup", FORM).text


def test_an_open_hub_makes_an_account_with_a_namespace(client: Client, configure: Configure) -> None:
    configure(signup="open")
    assert "/signup?next=/runs" in client.get("/login?next=/runs").text
    assert client.post("/signup", FORM | {"next": "/runs"})["Location"] == "/runs"
    assert get_owner(User.objects.get(pk=client.session["_auth_user_id"]), "ada")


def test_an_invitation_to_a_team_lets_one_person_in(client: Client, configure: Configure) -> None:
    configure(signup="invited")
    path = invitation()
    assert "You will join the team" in client.get(f"/signup?next={path}").text
    shown = client.post("/signup", FORM | {"next": path}, follow=True)
    assert (shown.request["PATH_INFO"], "You are a member of lab" in shown.text) == ("/teams/lab", True)
    assert Membership.objects.get(user__username="ada", owner__slug="lab").role == Role.READER
    assert "You need an invitation" in Client().post("/signup", FORM | {"username": "eve", "next": path}).text


def test_who_opens_an_invitation_reads_who_invites_before_signing_in(client: Client, configure: Configure) -> None:
    configure(signup="invited")
    path = invitation()
    shown = client.get(f"/login?next={path}").text
    assert ("has invited you to join the team" in shown, f"/signup?next={path}" in shown) == (True, True)
    configure(signup="closed")
    shown = client.get(f"/login?next={path}").text
    assert ("Sign in to accept." in shown, "/signup" in shown) == (True, False)
    assert "invited you" not in client.get("/login?next=/join/wrong").text


def test_the_address_that_was_invited_stands_in_the_form(client: Client, configure: Configure) -> None:
    configure(signup="invited", mail_url="console:")
    founder = make_user()
    team = make_owner("lab", members=[founder], role=Role.OWNER)
    link = invite_to_team(user=founder, team=team, role=Role.READER, mail="ada@example.org").url
    path = link.removeprefix("http://127.0.0.1:8000")
    shown = client.get(f"/signup?next={path}").text
    assert ('value="ada@example.org"' in shown, "Email address" in shown, "User name" in shown) == (True, True, True)


@pytest.mark.parametrize(
    ("name", "problem"),
    [("lab", "taken"), ("settings", "reserved"), ("A b", "not a valid user name"), ("", "required")],
)
def test_a_name_that_cannot_be_had_is_refused(client: Client, configure: Configure, name: str, problem: str) -> None:
    configure(signup="open")
    make_owner("lab")
    assert problem in client.post("/signup", FORM | {"username": name}).text
    with pytest.raises(Conflict):
        create_user(username="lab")


def test_with_mail_an_address_is_confirmed_before_the_first_session(client: Client, configure: Configure) -> None:
    configure(signup="open", mail_url="console:", signup_domains=["example.org"])
    assert "@" not in client.post("/signup", FORM | {"email": "ada@example.com"}).headers.get("Location", "")
    assert not User.objects.exists()
    assert client.post("/signup", FORM | {"email": "ada@example.org"})["Location"] == "/mail/sent"
    assert client.post("/login", {"username": "ada", "password": PASSWORD})["Location"] == "/mail/sent"
    other = Client()
    assert "Confirm the address" in other.get(link_of_mail()).text
    other.post(link_of_mail())
    assert EmailAddress.objects.get(email="ada@example.org").verified
    assert Client().post("/login", {"username": "ada", "password": PASSWORD})["Location"] == "/"


def test_whoever_confirmed_an_address_after_an_invitation_lands_on_the_team(
    client: Client, configure: Configure
) -> None:
    configure(signup="invited", mail_url="console:")
    client.post("/signup", FORM | {"next": invitation(), "email": "ada@example.org"})
    opened = Client()  # where the mail is read
    sign_in = opened.post(link_of_mail())["Location"]
    assert sign_in == "/login?next=%2Fteams%2Flab"
    assert 'value="/teams/lab"' in opened.get(sign_in).text


def test_signing_up_tells_nobody_which_addresses_have_accounts(client: Client, configure: Configure) -> None:
    configure(signup="open", mail_url="console:")
    EmailAddress.objects.create(user=make_user("grace"), email="known@example.org", verified=True, primary=True)
    replies = [
        Client().post("/signup", FORM | {"username": name, "email": f"{name}@example.org"})
        for name in ("known", "fresh")
    ]
    assert {(reply.status_code, reply["Location"]) for reply in replies} == {(302, "/mail/sent")}
    assert not User.objects.filter(username="known").exists()
