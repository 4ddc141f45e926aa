"""Invitations to teams: a link that works once, for people who have an account."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from envhub.protocol.accounts.users import Scope

from hub.accounts.models import Membership, Owner, Role, TeamInvitation, User
from hub.accounts.services import (
    add_member,
    change_role,
    create_team,
    disable_user,
    invite_to_team,
    join_team,
    revoke_invitation,
)
from hub.core.errors import Conflict, NotAllowed, NotFound
from tests.factories.accounts import bearer, make_token, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def founder() -> User:
    return make_user("ada")


@pytest.fixture
def team(founder: User) -> Owner:
    return create_team(user=founder, slug="acme")


def link_of(founder: User, team: Owner, role: Role = Role.MEMBER) -> str:
    return invite_to_team(user=founder, team=team, role=role).url.removeprefix("http://127.0.0.1:8000")


def test_a_link_makes_its_user_a_member_once(founder: User, team: Owner, client: Client) -> None:
    link, bob, carol = link_of(founder, team, Role.READER), make_user(), make_user()
    client.force_login(bob)
    assert "as reader" in client.get(link).text
    assert client.post(link).status_code == 302
    assert Membership.objects.get(owner=team, user=bob).role == Role.READER
    client.force_login(carol)
    assert (client.get(link).status_code, client.post(link).status_code) == (404, 404)


def test_a_member_who_opens_the_spent_link_again_is_led_to_the_team(founder: User, team: Owner, client: Client) -> None:
    link, bob = link_of(founder, team, Role.READER), make_user()
    client.force_login(bob)
    client.post(link)
    assert client.get(link)["Location"] == "/teams/acme"
    Membership.objects.filter(owner=team, user=bob).delete()
    assert client.get(link).status_code == 404


def test_a_stranger_signs_in_first_and_the_link_waits(founder: User, team: Owner, client: Client) -> None:
    link = link_of(founder, team)
    for answer in (client.get(link), client.post(link)):
        assert answer["Location"].startswith("/login?next=/join/")
    assert TeamInvitation.objects.get().ended_at is None


def test_a_link_is_kept_as_its_hash_alone(founder: User, team: Owner) -> None:
    secret = link_of(founder, team).rpartition("/")[2]
    assert secret not in str(TeamInvitation.objects.values().get())


def test_a_member_neither_spends_a_link_nor_loses_a_role(founder: User, team: Owner) -> None:
    secret = link_of(founder, team, Role.READER).rpartition("/")[2]
    with pytest.raises(Conflict):
        join_team(user=founder, secret=secret)
    assert Membership.objects.get(owner=team, user=founder).role == Role.OWNER
    assert join_team(user=make_user(), secret=secret).role == Role.READER


def test_what_is_over_admits_nobody(founder: User, team: Owner) -> None:
    other = make_user()
    add_member(user=founder, team=team, name=other.username, role=Role.OWNER)
    ended = {
        "revoked": lambda made: revoke_invitation(user=founder, team=team, invitation_id=made.invitation.pk),
        "too old": lambda made: TeamInvitation.objects.filter(pk=made.invitation.pk).update(
            expires_at=timezone.now() - timedelta(seconds=1)
        ),
        "no owner's any more": lambda _: change_role(user=founder, team=team, name=other.username, role=Role.MEMBER),
    }
    for what, end in ended.items():
        made = invite_to_team(user=other, team=team, role=Role.OWNER)
        end(made)
        with pytest.raises(NotFound):
            join_team(user=make_user(), secret=made.url.rpartition("/")[2])
        assert what


def test_the_links_of_a_disabled_owner_admit_nobody(founder: User, team: Owner) -> None:
    secret = link_of(founder, team).rpartition("/")[2]
    disable_user(user=founder, by=make_user(is_superuser=True))
    with pytest.raises(NotFound):
        join_team(user=make_user(), secret=secret)


def test_members_do_not_invite(founder: User, team: Owner) -> None:
    member = make_user()
    add_member(user=founder, team=team, name=member.username, role=Role.MEMBER)
    with pytest.raises(NotAllowed):
        invite_to_team(user=member, team=team, role=Role.READER)


def test_a_maintainer_invites_readers_and_members_and_revokes_no_link_of_an_owner(founder: User, team: Owner) -> None:
    keeper = make_user()
    add_member(user=founder, team=team, name=keeper.username, role=Role.MAINTAINER)
    mine = invite_to_team(user=keeper, team=team, role=Role.MEMBER)
    theirs = invite_to_team(user=founder, team=team, role=Role.MAINTAINER)
    for role in (Role.MAINTAINER, Role.OWNER):
        with pytest.raises(NotAllowed):
            invite_to_team(user=keeper, team=team, role=role)
    with pytest.raises(NotAllowed):
        revoke_invitation(user=keeper, team=team, invitation_id=theirs.invitation.pk)
    revoke_invitation(user=keeper, team=team, invitation_id=mine.invitation.pk)


def test_a_new_role_ends_the_links_that_it_could_not_give(founder: User, team: Owner) -> None:
    other = make_user()
    add_member(user=founder, team=team, name=other.username, role=Role.OWNER)
    links = {role: invite_to_team(user=other, team=team, role=role).invitation for role in (Role.MEMBER, Role.OWNER)}
    change_role(user=founder, team=team, name=other.username, role=Role.MAINTAINER)
    for link in links.values():
        link.refresh_from_db()
    assert links[Role.MEMBER].ended_at is None
    assert links[Role.OWNER].ended_at is not None


def test_over_rest_from_the_team_to_its_end(founder: User, client: Client) -> None:
    bob = make_user("bob")
    ada, his = bearer(make_token(founder)), bearer(make_token(bob))

    def call(method: str, path: str, headers: dict[str, str], **body: object) -> tuple[int, object]:
        reply = getattr(client, method)(f"/api/v1/{path}", body, content_type="application/json", headers=headers)
        return reply.status_code, reply.json() if reply.content else None

    assert call("post", "teams", ada, name="acme")[0] == 201
    assert call("get", "teams/acme", his)[0] == 404
    _, made = call("post", "teams/acme/invitations", ada, role="reader")
    assert isinstance(made, dict)
    assert call("post", "join", his, secret=made["url"].rpartition("/")[2]) == (200, {"team": "acme", "role": "reader"})
    assert call("get", "teams/acme/invitations", his)[0] == 403
    assert call("patch", "teams/acme/members/bob", ada, role="member") == (
        200,
        {"user": "bob", "role": "member", "is_active": True},
    )
    _, page = call("get", "teams/acme/members", his)
    assert isinstance(page, dict)
    assert {one["user"]: one["role"] for one in page["items"]} == {"ada": "owner", "bob": "member"}
    assert call("delete", "teams/acme/members/bob", his)[0] == 204
    assert call("get", "teams/acme", his)[0] == 404
    assert call("delete", "teams/acme", ada)[0] == 204


def test_a_token_without_the_scope_write_joins_nothing(founder: User, team: Owner, client: Client) -> None:
    secret = link_of(founder, team).rpartition("/")[2]
    headers = bearer(make_token(make_user(), Scope.READ))
    reply = client.post("/api/v1/join", {"secret": secret}, content_type="application/json", headers=headers)
    assert reply.status_code == 403
