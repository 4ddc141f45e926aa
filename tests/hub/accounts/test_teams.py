"""Teams: making them, their roles, and that one is never left without an founder."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from hub.accounts.holdings import all_holdings
from hub.accounts.models import Membership, Owner, Role, User
from hub.accounts.queries import get_owner, get_team, has_role
from hub.accounts.services import (
    add_member,
    change_role,
    create_team,
    delete_team,
    disable_user,
    remove_member,
    rename_team,
    set_password,
)
from hub.accounts.services.limits import TooManyRequests
from hub.accounts.services.teams import NEW_TEAMS_AN_HOUR
from hub.core.errors import Conflict, HubError, Invalid, NotAllowed, NotFound
from hub.secrets.services import delete_secret, set_secret
from tests.factories.accounts import make_user
from tests.factories.runs import make_run

pytestmark = pytest.mark.django_db


def role_of(team: Owner, user: User) -> str | None:
    return Membership.objects.filter(owner=team, user=user).values_list("role", flat=True).first()


def test_who_makes_a_team_is_its_owner() -> None:
    user = make_user()
    team = create_team(user=user, slug="acme", display_name="  Acme \x00 Research ")
    assert (role_of(team, user), team.display_name) == (Role.OWNER, "Acme Research")


@pytest.mark.parametrize("name", ["", "Acme", "-a", "a/b", "teams", "join", "hub", "a" * 65])
def test_a_team_is_named_as_a_user_is(name: str) -> None:
    with pytest.raises(Invalid):
        create_team(user=make_user(), slug=name)


def test_a_name_is_given_once_to_users_and_teams() -> None:
    user = make_user("ada")
    create_team(user=user, slug="acme")
    for taken in ("ada", "acme"):
        with pytest.raises(Conflict) as caught:
            create_team(user=user, slug=taken)
        assert caught.value.code == "name_taken"


def test_an_operator_leaves_teams_to_administrators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update={"team_creation": "administrators"}))
    with pytest.raises(NotAllowed):
        create_team(user=make_user(), slug="acme")
    create_team(user=make_user(is_superuser=True), slug="acme")


def test_nobody_takes_names_by_the_hundred() -> None:
    user = make_user()
    for number in range(NEW_TEAMS_AN_HOUR):
        create_team(user=user, slug=f"acme-{number}")
    with pytest.raises(TooManyRequests):
        create_team(user=user, slug="acme")


def test_a_team_is_found_by_its_members_alone() -> None:
    user, stranger, root = make_user(), make_user(), make_user(is_superuser=True)
    create_team(user=user, slug="acme")
    assert get_team(user, "acme").members == get_team(root, "acme").members == 1  # type: ignore[attr-defined]
    for caller, slug in ((stranger, "acme"), (user, user.username), (root, "hub")):
        with pytest.raises(NotFound):
            get_team(caller, slug)


@pytest.mark.parametrize("role", [Role.READER, Role.MEMBER])
def test_readers_and_members_do_not_change_the_team(role: Role) -> None:
    founder, member, other = make_user(), make_user(), make_user()
    team = create_team(user=founder, slug="acme")
    add_member(user=founder, team=team, name=member.username, role=role)
    tries: list[Any] = [
        lambda: add_member(user=member, team=team, name=other.username, role=Role.READER),
        lambda: change_role(user=member, team=team, name=member.username, role=Role.OWNER),
        lambda: remove_member(user=member, team=team, name=founder.username),
        lambda: rename_team(user=member, team=team, display_name="x"),
        lambda: delete_team(user=member, team=team),
    ]
    for attempt in tries:
        with pytest.raises(NotAllowed):
            attempt()


def test_a_maintainer_manages_readers_and_members_and_nothing_above() -> None:
    founder, keeper, other, new = make_user(), make_user(), make_user(), make_user()
    team = create_team(user=founder, slug="acme")
    for person, role in ((keeper, Role.MAINTAINER), (other, Role.MAINTAINER)):
        add_member(user=founder, team=team, name=person.username, role=role)
    add_member(user=keeper, team=team, name=new.username, role=Role.READER)
    change_role(user=keeper, team=team, name=new.username, role=Role.MEMBER)
    tries: list[Any] = [
        lambda: change_role(user=keeper, team=team, name=new.username, role=Role.MAINTAINER),
        lambda: change_role(user=keeper, team=team, name=keeper.username, role=Role.OWNER),
        lambda: change_role(user=keeper, team=team, name=other.username, role=Role.READER),
        lambda: change_role(user=keeper, team=team, name=founder.username, role=Role.MEMBER),
        lambda: remove_member(user=keeper, team=team, name=founder.username),
        lambda: remove_member(user=keeper, team=team, name=other.username),
        lambda: add_member(user=keeper, team=team, name=make_user().username, role=Role.OWNER),
        lambda: rename_team(user=keeper, team=team, display_name="x"),
        lambda: delete_team(user=keeper, team=team),
    ]
    for attempt in tries:
        with pytest.raises(NotAllowed):
            attempt()
    remove_member(user=keeper, team=team, name=new.username)
    remove_member(user=keeper, team=team, name=keeper.username)
    assert (role_of(team, new), role_of(team, keeper), role_of(team, other)) == (None, None, Role.MAINTAINER)


def test_a_team_changes_hands() -> None:
    founder, heir = make_user(), make_user()
    team = create_team(user=founder, slug="acme")
    add_member(user=founder, team=team, name=heir.username, role=Role.OWNER)
    remove_member(user=founder, team=team, name=founder.username)
    delete_team(user=heir, team=team)


def test_a_user_is_added_once_and_only_if_there_is_one() -> None:
    founder, member, gone = make_user(), make_user(), make_user()
    disable_user(user=gone, by=founder)
    team = create_team(user=founder, slug="acme")
    add_member(user=founder, team=team, name=member.username, role=Role.READER)
    with pytest.raises(Conflict):
        add_member(user=founder, team=team, name=member.username, role=Role.OWNER)
    assert role_of(team, member) == Role.READER
    for name in ("nobody", gone.username):
        with pytest.raises(NotFound):
            add_member(user=founder, team=team, name=name, role=Role.READER)


def test_the_last_owner_stays() -> None:
    founder, member = make_user(), make_user()
    team = create_team(user=founder, slug="acme")
    add_member(user=founder, team=team, name=member.username, role=Role.MEMBER)
    for attempt in (
        lambda: remove_member(user=founder, team=team, name=founder.username),
        lambda: change_role(user=founder, team=team, name=founder.username, role=Role.MEMBER),
    ):
        with pytest.raises(Conflict) as caught:
            attempt()
        assert caught.value.code == "last_owner"
    change_role(user=founder, team=team, name=member.username, role=Role.OWNER)
    remove_member(user=founder, team=team, name=founder.username)
    assert (role_of(team, founder), role_of(team, member)) == (None, Role.OWNER)


def test_an_owner_who_is_disabled_does_not_count_and_an_administrator_helps() -> None:
    founder, other, root = make_user(), make_user(), make_user(is_superuser=True)
    team = create_team(user=founder, slug="acme")
    add_member(user=founder, team=team, name=other.username, role=Role.OWNER)
    disable_user(user=other, by=root)
    with pytest.raises(Conflict):
        remove_member(user=founder, team=team, name=founder.username)
    add_member(user=root, team=team, name=root.username, role=Role.OWNER)
    remove_member(user=founder, team=team, name=founder.username)


def test_who_leaves_sees_nothing_of_the_team_and_what_was_started_goes_on() -> None:
    founder, member = make_user(), make_user()
    team = create_team(user=founder, slug="acme")
    add_member(user=founder, team=team, name=member.username, role=Role.MEMBER)
    run = make_run(owner=team, created_by=member)
    remove_member(user=member, team=team, name=member.username)
    run.refresh_from_db()
    assert (run.state, run.cancel_requested_at, has_role(member, team, Role.READER)) == ("queued", None, False)
    with pytest.raises(NotFound):
        get_owner(member, "acme")


def test_a_team_that_owns_something_is_not_deleted() -> None:
    user = make_user()
    team = create_team(user=user, slug="acme")
    set_secret(owner=team, name="KEY", value="value", user=user)
    with pytest.raises(Conflict, match="acme still owns secrets"):
        delete_team(user=user, team=team)
    delete_secret(owner=team, name="KEY")
    delete_team(user=user, team=team)
    assert not Owner.objects.filter(slug="acme").exists()
    assert set_password(user=user, current="", new="correct horse battery") == user


USAGE = {"ownermodelusage", "ownerusage"}
GOES_WITH_A_TEAM = {"membership", "teaminvitation", "push", "run", "sandbox"} | USAGE  # runs: ended ones
GOES_WITH_A_TEAM |= {
    "apitoken",  # those for this owner alone
    "begunimage",
    "begunpush",
    "contender",
    "evaluationcount",
    "savedtrainingview",
    "traininglabel",
    "formername",
    "ownerquota",
    "rolloutlabel",
    "savedview",
    "sharelink",
    "webhook",
}


def test_whatever_refers_to_an_owner_keeps_it_or_goes_with_it() -> None:
    rows = {holding.rows(Owner(slug="x")).model._meta.model_name for holding in all_holdings()}
    referring = {
        field.related_model._meta.model_name
        for field in Owner._meta.get_fields(include_hidden=True)
        if field.auto_created and not field.concrete and not field.related_model._meta.auto_created
    }
    assert referring == rows | GOES_WITH_A_TEAM


@pytest.mark.django_db(transaction=True)
def test_two_owners_who_leave_at_once_leave_one_behind() -> None:
    owners = [make_user(), make_user()]
    team = create_team(user=owners[0], slug="acme")
    add_member(user=owners[0], team=team, name=owners[1].username, role=Role.OWNER)
    refused, start = [], threading.Barrier(2)

    def leave(user: User) -> None:
        start.wait()
        try:
            remove_member(user=user, team=team, name=user.username)
        except HubError as error:
            refused.append(error.code)
        finally:
            connection.close()

    threads = [threading.Thread(target=leave, args=(user,)) for user in owners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == ["last_owner"]
    assert Membership.objects.filter(owner=team, role=Role.OWNER).count() == 1
