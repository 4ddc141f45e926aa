"""Device login (RFC 8628): code, approval in the browser, token."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.utils import timezone

from hub.accounts.models import DeviceLogin, User
from tests.factories.accounts import bearer, make_user

pytestmark = pytest.mark.django_db
PASSWORD = "a long and safe one"
GRANT = "urn:ietf:params:oauth:grant-type:device_code"


def post_form(client: Client, path: str, **form: str) -> Any:
    return client.post(f"/api/v1/device/{path}", urlencode(form), content_type="application/x-www-form-urlencoded")


def start(client: Client) -> dict[str, Any]:
    return dict(post_form(client, "code", client_name="laptop").json())


def poll(client: Client, code: dict[str, Any]) -> Any:
    DeviceLogin.objects.update(last_polled_at=None)
    return post_form(client, "token", grant_type=GRANT, device_code=code["device_code"])


def decide(client: Client, code: dict[str, Any], decision: str) -> Any:
    return client.post("/device", {"user_code": code["user_code"], "decision": decision})


@pytest.fixture
def browser() -> Client:
    client = Client()
    make_user("ada", password=PASSWORD)
    assert client.post("/login", {"username": "ada", "password": PASSWORD}).status_code == 302
    return client


def test_an_approved_device_gets_a_token_of_the_person(client: Client, browser: Client) -> None:
    code = start(client)
    assert poll(client, code).json()["error"] == "authorization_pending"
    assert "Approved" in decide(browser, code, "approve").content.decode()
    token = poll(client, code).json()["access_token"]
    assert client.get("/api/v1/me", headers=bearer(token)).json()["user"] == "ada"


def test_the_token_is_handed_over_once(client: Client, browser: Client) -> None:
    code = start(client)
    decide(browser, code, "approve")
    poll(client, code)
    assert poll(client, code).json()["error"] == "invalid_grant"


def test_a_denied_device_gets_nothing(client: Client, browser: Client) -> None:
    code = start(client)
    decide(browser, code, "deny")
    reply = poll(client, code)
    assert (reply.status_code, reply.json()["error"]) == (400, "access_denied")


def test_polling_too_fast_slows_the_device_down(client: Client) -> None:
    code = start(client)
    form = {"grant_type": GRANT, "device_code": code["device_code"]}
    errors = [post_form(client, "token", **form).json()["error"] for _ in range(2)]
    assert errors == ["authorization_pending", "slow_down"]
    assert DeviceLogin.objects.get().interval == code["interval"] + 5


def test_a_code_expires(client: Client, browser: Client) -> None:
    code = start(client)
    DeviceLogin.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert decide(browser, code, "approve").status_code == 404
    assert poll(client, code).json()["error"] == "expired_token"


def test_a_code_may_be_typed_in_any_case_with_or_without_dash(client: Client, browser: Client) -> None:
    code = start(client)
    code["user_code"] = code["user_code"].lower().replace("-", " ")
    assert decide(browser, code, "approve").status_code == 200


def test_json_works_as_well_as_forms(client: Client) -> None:
    code = client.post("/api/v1/device/code", "{}", content_type="application/json").json()
    reply = client.post("/api/v1/device/token", {"device_code": code["device_code"]}, content_type="application/json")
    assert reply.json()["error"] == "authorization_pending"


def test_an_empty_body_starts_a_login(client: Client) -> None:
    assert client.post("/api/v1/device/code", "", content_type="application/json").status_code == 200


def test_a_wrong_grant_type_is_named(client: Client) -> None:
    reply = post_form(client, "token", grant_type="password", device_code="x")
    assert reply.json()["error"] == "unsupported_grant_type"


def test_the_page_is_for_people_who_are_signed_in(client: Client) -> None:
    reply = client.get("/device?user_code=ABCD-EFGH")
    assert (reply.status_code, reply["Location"]) == (302, "/login?next=/device%3Fuser_code%3DABCD-EFGH")


def test_whoever_approves_a_device_has_just_shown_who_they_are(client: Client, browser: Client) -> None:
    code = start(client)
    old = Client()
    old.force_login(User.objects.get(username="ada"))  # a session that began by itself counts as an old one
    address = f"/device?user_code={code['user_code']}"
    assert old.get(address)["Location"] == f"/settings/confirm?{urlencode({'next': address})}"
    assert decide(old, code, "approve")["Location"].startswith("/settings/confirm?next=")
    assert poll(client, code).json()["error"] == "authorization_pending"
    assert old.post(f"/settings/confirm?{urlencode({'next': address})}", {"password": PASSWORD})["Location"] == address
    assert "Approved" in decide(old, code, "approve").content.decode()


def test_guessing_codes_is_limited(browser: Client) -> None:
    statuses = [browser.get("/device?user_code=BBBB-BBBB").status_code for _ in range(22)]
    assert (statuses[0], statuses[-1]) == (404, 429)


def test_a_device_cannot_ask_for_admin_rights(client: Client) -> None:
    assert post_form(client, "code", scope="read admin").status_code == 422


def test_the_stored_row_holds_no_device_code(client: Client) -> None:
    code = start(client)
    assert code["device_code"] not in str(DeviceLogin.objects.values().get())
