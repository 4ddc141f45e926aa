"""A disabled user is refused at every door at once; what they made stays, and enabling opens the doors again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from envhub.protocol.accounts.users import Scope

from hub.accounts.models import User
from hub.accounts.services import create_login_link, create_token, disable_user, enable_user, invite_user
from hub.core.errors import Conflict, NotAllowed
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.registry import create_ready_version

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@pytest.fixture
def root() -> User:
    return make_user("root-user", is_superuser=True)


@pytest.fixture
def ada() -> User:
    return make_user("ada", password=PASSWORD)


def path_of(url: str) -> str:
    return url.removeprefix("http://127.0.0.1:8000")


@pytest.mark.parametrize("path", ["/api/v1/me", "/api/v1/environments", "/hf/api/datasets/a/b"])
def test_a_token_stops_and_comes_back(root: User, ada: User, path: str) -> None:
    headers = bearer(make_token(ada))
    assert Client().get(path, headers=headers).status_code != 401
    disable_user(user=ada, by=root)
    assert Client().get(path, headers=headers).status_code == 401
    enable_user(user=ada)
    assert Client().get(path, headers=headers).status_code != 401


def test_a_session_stops(root: User, ada: User, client: Client) -> None:
    client.force_login(ada)
    assert client.get("/settings/tokens").status_code == 200
    disable_user(user=ada, by=root)
    assert client.get("/settings/tokens").headers["Location"].startswith("/login")
    assert client.get("/api/v1/me").status_code == 401


def test_a_password_stops(root: User, ada: User, client: Client) -> None:
    disable_user(user=ada, by=root)
    assert client.post("/login", {"username": "ada", "password": PASSWORD}).status_code == 401
    enable_user(user=ada)
    assert client.post("/login", {"username": "ada", "password": PASSWORD}).status_code == 302


def test_links_stop(root: User, ada: User, client: Client) -> None:
    links = create_login_link(user=ada), invite_user(username="ada", reset=True).url
    disable_user(user=ada, by=root)
    assert [client.get(path_of(link)).status_code for link in links] == [404, 404]
    assert [client.post(path_of(link), {"new": PASSWORD}).status_code for link in links] == [404, 404]
    with pytest.raises(Conflict, match="disabled"):
        invite_user(username="ada", reset=True)


def test_a_device_that_was_approved_gets_no_token(root: User, ada: User, client: Client) -> None:
    code = client.post("/api/v1/device/code", {}, content_type="application/json").json()
    browser = Client()
    browser.post("/login", {"username": "ada", "password": PASSWORD})
    browser.post("/device", {"user_code": code["user_code"], "decision": "approve"})
    disable_user(user=ada, by=root)
    body = {"device_code": code["device_code"], "grant_type": GRANT}
    for _ in range(2):
        reply = client.post("/api/v1/device/token", body, content_type="application/json")
        assert reply.json()["error"] == "access_denied"
        enable_user(user=ada)  # does not bring it back either


def test_no_token_is_made_for_a_disabled_user(root: User, ada: User) -> None:
    disable_user(user=ada, by=root)
    with pytest.raises(NotAllowed, match="ada is disabled"):
        create_token(user=ada, name="late")


def test_an_administrator_loses_the_rights(root: User, client: Client) -> None:
    other = make_user("other-root", is_superuser=True)
    headers = bearer(make_token(other, Scope.READ, Scope.ADMIN))
    disable_user(user=other, by=root)
    assert client.get("/api/v1/users", headers=headers).status_code == 401


def test_public_environments_stay(root: User, ada: User, client: Client) -> None:
    create_ready_version(ada)
    disable_user(user=ada, by=root)
    for path in ("/environments/ada/tiny-env", "/api/v1/environments/ada/tiny-env", "/index/ada/simple/tiny-env/"):
        assert client.get(path).status_code == 200, path


def test_nobody_disables_themselves(root: User, client: Client) -> None:
    client.force_login(root)
    assert client.post("/settings/users/root-user/disable").status_code == 409
    root.refresh_from_db()
    assert root.is_active


def test_administrators_disable_and_enable_on_the_page(root: User, ada: User, client: Client) -> None:
    client.force_login(root)
    assert "/settings/users/ada/disable" in client.get("/settings/users").text
    assert "Disabled ada" in client.post("/settings/users/ada/disable", follow=True).text
    assert "/settings/users/ada/enable" in client.get("/settings/users").text
    client.post("/settings/users/ada/enable")
    ada.refresh_from_db()
    assert ada.is_active


def test_administrators_disable_over_http(root: User, ada: User, client: Client) -> None:
    headers = bearer(make_token(root, Scope.WRITE, Scope.ADMIN))
    for active in (False, False, True):
        reply = client.patch("/api/v1/users/ada", {"is_active": active}, "application/json", headers=headers)
        assert reply.json()["is_active"] is active
    missing = client.patch("/api/v1/users/nobody", {"is_active": False}, "application/json", headers=headers)
    assert missing.status_code == 404


def test_an_expired_token_stays_expired_when_its_user_is_enabled(root: User, ada: User, client: Client) -> None:
    secret, token = create_token(user=ada, name="old")
    token.expires_at = timezone.now() - timedelta(seconds=1)
    token.save()
    disable_user(user=ada, by=root)
    enable_user(user=ada)
    assert client.get("/api/v1/me", headers=bearer(secret)).status_code == 401
