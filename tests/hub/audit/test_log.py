"""The audit log: what stands in a line, who reads it, how it ends."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError
from django.test import Client
from django.utils import timezone
from envhub.protocol.accounts.users import Scope

from hub.accounts.models import Membership, Owner, Role, User
from hub.accounts.services import create_team, delete_team
from hub.audit.models import AuditEntry
from hub.audit.services import Pruning
from hub.core.ids import first_id_at, new_id
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.registry import create_ready_version

pytestmark = pytest.mark.django_db
SECRET = "correct-horse-battery"


@pytest.fixture
def ada() -> User:
    return make_user("ada")


@pytest.fixture
def team(ada: User) -> Owner:
    return create_team(user=ada, slug="acme")


def set_secret(user: User, owner: str, **headers: str) -> str:
    """Over REST; the token."""
    token = make_token(user)
    reply = Client().put(
        f"/api/v1/secrets/{owner}/KEY",
        {"value": SECRET},
        content_type="application/json",
        headers=bearer(token) | headers,
    )
    assert reply.status_code in {200, 201}, reply.content
    return token


def lines(user: User, *, owner: str = "", scopes: tuple[Scope, ...] = (Scope.READ,)) -> Any:
    reply = Client().get(f"/api/v1/audit?owner={owner}", headers=bearer(make_token(user, *scopes)))
    return [item["action"] for item in reply.json()["items"]] if reply.status_code == 200 else reply.status_code


def test_a_line_says_who_what_on_which_for_whom_from_where_and_by_which_token(ada: User, team: Owner) -> None:
    token = set_secret(ada, "acme")
    entry = AuditEntry.objects.get()
    told = (entry.actor, entry.action, entry.subject, entry.owner_id, entry.owner_slug, entry.address)
    assert told == ("ada", "set a secret", "acme/KEY", team.pk, "acme", "127.0.0.1")
    assert token.startswith(entry.token_prefix)
    assert len(entry.token_prefix) == 10
    assert SECRET not in str(AuditEntry.objects.values().get())


def test_a_new_thing_is_named_by_its_answer(ada: User) -> None:
    headers = bearer(make_token(ada))
    reply = Client().post("/api/v1/tokens", {"name": "laptop"}, content_type="application/json", headers=headers)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.subject, entry.owner_slug) == ("made an API token", "laptop", "ada")
    assert reply.json()["token"][11:] not in str(AuditEntry.objects.values().get())


def test_both_owners_read_that_an_environment_has_moved_from_one_to_the_other(ada: User, team: Owner) -> None:
    create_ready_version(ada)
    AuditEntry.objects.all().delete()
    moved = Client().post(
        "/api/v1/environments/ada/tiny-env/move",
        {"owner": "acme"},
        content_type="application/json",
        headers=bearer(make_token(ada)),
    )
    assert moved.status_code == 200, moved.content
    told = [(entry.owner_slug, entry.subject) for entry in AuditEntry.objects.order_by("owner_slug")]
    assert told == [("acme", "ada/tiny-env"), ("ada", "ada/tiny-env")]


def test_a_form_is_logged_as_its_browsers_write(ada: User, client: Client) -> None:
    client.force_login(ada)
    client.post("/settings/teams", {"name": "acme"})
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.subject, entry.owner_slug, entry.token_prefix) == ("made a team", "acme", "acme", "")


def test_typing_into_the_training_form_starts_nothing(ada: User, client: Client) -> None:
    client.force_login(ada)
    assert client.post("/training/new", {"toml": "", "show": "file"}).status_code == 200
    assert not AuditEntry.objects.exists()


def test_what_is_refused_or_only_read_is_not_logged(ada: User, team: Owner, client: Client) -> None:
    stranger = bearer(make_token(make_user()))
    client.put("/api/v1/secrets/acme/KEY", {"value": "x"}, content_type="application/json", headers=stranger)
    client.post("/login", {"username": "ada", "password": "wrong"})
    client.get("/api/v1/teams", headers=bearer(make_token(ada)))
    assert not AuditEntry.objects.exists()


def test_the_owners_admins_and_administrators_read_it(ada: User, team: Owner) -> None:
    set_secret(ada, "acme")
    member, root = make_user(), make_user(is_superuser=True)
    Membership.objects.create(owner=team, user=member, role=Role.MEMBER)
    assert lines(ada, owner="acme") == ["set a secret"]
    assert lines(member, owner="acme") == 403
    assert lines(make_user(), owner="acme") == 404
    assert lines(member) == []
    assert lines(root, scopes=(Scope.READ, Scope.ADMIN)) == ["set a secret"]
    assert lines(root) == []


def test_a_namesake_of_a_team_that_is_gone_sees_nothing_of_it(ada: User, team: Owner, client: Client) -> None:
    client.force_login(ada)
    client.post("/teams/acme/rename", {"display_name": "x"})
    delete_team(user=ada, team=Owner.objects.get(slug="acme"))
    other = make_user()
    create_team(user=other, slug="acme")
    assert lines(other, owner="acme") == []


def test_pages_follow_the_key_and_the_export_has_all(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hub.audit.queries.EXPORTED_AT_ONCE", 2)
    for _ in range(5):
        set_secret(ada, "ada")
    headers = bearer(make_token(ada))
    first = Client().get("/api/v1/audit?limit=3", headers=headers).json()
    second = Client().get(first["next"], headers=headers).json()
    listed = [item["id"] for item in first["items"] + second["items"]]
    export = b"".join(Client().get("/api/v1/audit/export", headers=headers).streaming_content)  # type: ignore[attr-defined]
    assert [json.loads(line)["id"] for line in export.splitlines()] == listed
    assert len(listed) == 5


def test_old_lines_are_forgotten(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    now = timezone.now()
    old = AuditEntry.objects.create(
        id=first_id_at(now - timedelta(days=11)), actor="ada", owner_id=ada.owner.pk, action="x"
    )
    young = AuditEntry.objects.create(id=new_id(), actor="ada", owner_id=ada.owner.pk, action="y")
    for days, gone in ((0, 0), (30, 0), (10, 1)):
        monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update={"audit_days": days}))
        assert Pruning()() == gone
    assert list(AuditEntry.objects.all()) == [young] != [old]


def test_the_page_shows_an_owner_whom_one_administers(ada: User, team: Owner, client: Client) -> None:
    set_secret(ada, "acme")
    client.force_login(ada)
    assert "acme/KEY" in client.get("/settings/audit?owner=acme").text
    assert "acme/KEY" not in client.get("/settings/audit").text
    assert b"".join(client.get("/settings/audit/export?owner=acme").streaming_content).count(b"\n") == 1  # type: ignore[attr-defined]


def test_a_write_succeeds_when_its_line_cannot_be_written(
    ada: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DatabaseError("no room")

    monkeypatch.setattr(AuditEntry.objects, "bulk_create", fail)
    with caplog.at_level(logging.ERROR):
        set_secret(ada, "ada")
    assert "ada set a secret ada/KEY" in caplog.text
