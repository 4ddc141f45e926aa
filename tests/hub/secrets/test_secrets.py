"""Secrets go in, are listed by name, reach a run by grant, and never come out of the API."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import call_command
from django.test import Client

from hub.accounts.models import User
from hub.core.errors import Invalid, Unavailable
from hub.secrets import services
from hub.secrets.keyring import make_keyring
from hub.secrets.models import Secret
from hub.secrets.services import decrypt, encrypt, reveal_for_run, set_secret
from tests.factories.accounts import bearer, make_owner, make_token, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def call(user: User | None, method: str, path: str, body: Any = None) -> Any:
    client = Client(headers=bearer(make_token(user)) if user else {})
    return getattr(client, method)(f"/api/v1/secrets/{path}", data=body, content_type="application/json")


def test_a_secret_is_set_listed_by_name_and_never_shown(alice: User) -> None:
    answer = call(alice, "put", "alice/HF_TOKEN", {"value": "hf_very_secret"})
    listed = call(alice, "get", "alice")
    assert answer.status_code == 201
    assert [(item["name"], item["created_by"]) for item in listed.json()["items"]] == [("HF_TOKEN", "alice")]
    assert b"very_secret" not in answer.content + listed.content


def test_the_database_holds_only_ciphertext(alice: User) -> None:
    call(alice, "put", "alice/HF_TOKEN", {"value": "hf_very_secret"})
    assert "secret" not in Secret.objects.get().ciphertext
    assert reveal_for_run(alice.owner, ["HF_TOKEN"]) == {"HF_TOKEN": "hf_very_secret"}


def test_setting_again_replaces_the_value(alice: User) -> None:
    call(alice, "put", "alice/HF_TOKEN", {"value": "old"})
    assert call(alice, "put", "alice/HF_TOKEN", {"value": "new"}).status_code == 200
    assert reveal_for_run(alice.owner, ["HF_TOKEN"]) == {"HF_TOKEN": "new"}


def test_a_deleted_secret_is_gone(alice: User) -> None:
    call(alice, "put", "alice/HF_TOKEN", {"value": "old"})
    assert call(alice, "delete", "alice/HF_TOKEN").status_code == 204
    assert call(alice, "delete", "alice/HF_TOKEN").status_code == 404


@pytest.mark.parametrize("name", ["lower", "1ST", "WITH-DASH", "A" * 65, "PATH%0A"])
def test_a_name_is_like_an_environment_variable(alice: User, name: str) -> None:
    assert call(alice, "put", f"alice/{name}", {"value": "x"}).status_code == 422


def test_a_refused_value_is_not_echoed(alice: User) -> None:
    answer = call(alice, "put", "alice/HF_TOKEN", {"value": ["hf_very_secret"]})
    assert answer.status_code == 422
    assert b"very_secret" not in answer.content


def test_strangers_see_no_owner_at_all(alice: User) -> None:
    set_secret(owner=alice.owner, name="HF_TOKEN", value="x", user=alice)
    for method, path in (("get", "alice"), ("put", "alice/HF_TOKEN"), ("delete", "alice/HF_TOKEN")):
        assert call(make_user(), method, path, {"value": "y"} if method == "put" else None).status_code == 404
        assert call(None, method, path).status_code == 401


def test_members_see_names_and_admins_change_them(alice: User) -> None:
    make_owner("team", members=[alice])
    assert call(alice, "get", "team").status_code == 200
    assert call(alice, "put", "team/HF_TOKEN", {"value": "x"}).status_code == 403


def test_a_run_gets_only_what_was_granted(alice: User) -> None:
    for name in ("ONE", "TWO"):
        set_secret(owner=alice.owner, name=name, value=name.lower(), user=alice)
    assert reveal_for_run(alice.owner, ["ONE"]) == {"ONE": "one"}


def test_a_grant_of_a_secret_that_is_not_there_names_it(alice: User) -> None:
    with pytest.raises(Invalid, match="NOWHERE") as caught:
        reveal_for_run(alice.owner, ["NOWHERE"])
    assert caught.value.code == "secret_missing"


def test_rotation_re_encrypts_everything_under_the_newest_key(
    alice: User, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = (Fernet.generate_key().decode() for _ in range(2))
    monkeypatch.setattr(services, "keyring", lambda: make_keyring([old], "s"))
    set_secret(owner=alice.owner, name="HF_TOKEN", value="value", user=alice)
    monkeypatch.setattr(services, "keyring", lambda: make_keyring([new, old], "s"))
    call_command("rotate_secrets")
    assert capsys.readouterr().out == "1 values re-encrypted\n"
    monkeypatch.setattr(services, "keyring", lambda: make_keyring([new], "s"))
    assert reveal_for_run(alice.owner, ["HF_TOKEN"]) == {"HF_TOKEN": "value"}


def test_a_lost_key_is_said_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    sealed = encrypt("value")
    monkeypatch.setattr(services, "keyring", lambda: make_keyring([], "another"))
    with pytest.raises(Unavailable) as caught:
        decrypt(sealed)
    assert caught.value.code == "secret_key_lost"
