"""Every error of the API has one form."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.test import Client

from tests.factories.accounts import bearer, make_token, make_user

pytestmark = pytest.mark.django_db


def test_an_unknown_path_is_an_error_body(client: Client) -> None:
    reply = client.get("/api/v1/nothing/here")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "not_found")


def test_a_wrong_method_is_an_error_body(client: Client) -> None:
    reply = client.delete("/api/v1/me")
    assert (reply.status_code, reply.json()["error"]["code"]) == (405, "method_not_allowed")


def test_a_body_that_is_no_json_is_an_error_body(client: Client) -> None:
    token = make_token(make_user())
    reply = client.post("/api/v1/tokens", "{", content_type="application/json", headers=bearer(token))
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "bad_request")


def test_a_wrong_content_type_is_an_error_body(client: Client) -> None:
    token = make_token(make_user())
    reply = client.post("/api/v1/tokens", "a=b", content_type="text/plain", headers=bearer(token))
    assert (reply.status_code, reply.json()["error"]["code"]) == (415, "unsupported_media_type")


def test_an_unknown_field_is_named(client: Client) -> None:
    token = make_token(make_user())
    body = {"name": "x", "scope": ["read"]}
    reply = client.post("/api/v1/tokens", body, content_type="application/json", headers=bearer(token))
    assert reply.status_code == 422
    assert list(reply.json()["error"]["fields"]) == ["scope"]


@pytest.mark.django_db(transaction=True)  # a refused statement would end the transaction around the test
def test_what_no_column_can_hold_is_never_a_bug(client: Client) -> None:
    user = make_user()
    headers = bearer(make_token(user))
    client.raise_request_exception = False
    replies = [
        client.get("/api/v1/environments?search=a%00b"),
        client.get("/environments?search=a%00b"),
        client.post("/login", {"username": "a\0b", "password": "x"}),
        client.post("/api/v1/device/code", {"client_name": "a\0b"}, content_type="application/json"),
        client.post("/api/v1/tokens", '{"name": "a\\u0000b"}', content_type="application/json", headers=headers),
        client.post("/api/v1/tokens", "[" * 100_000, content_type="application/json", headers=headers),
        client.post("/api/v1/tokens", '{"name": "a\\ud800"}', content_type="application/json", headers=headers),
        client.post(
            "/api/v1/evaluations",
            '{"environment": "a\\ud800", "model": "a/b"}',
            content_type="application/json",
            headers=headers,
        ),
        client.put(
            f"/api/v1/models/{user}/x",
            '{"name": "x", "variants": [{"base_url": "http://e/\\ud800", "model": "m"}], "test": false}',
            content_type="application/json",
            headers=headers,
        ),
    ]
    assert [reply.status_code for reply in replies if reply.status_code >= 500] == []


def test_a_bad_token_is_401_with_a_challenge(client: Client) -> None:
    reply = client.get("/api/v1/me", headers=bearer("hub_wrong"))
    assert (reply.status_code, reply["WWW-Authenticate"]) == (401, 'Bearer realm="hub"')


def test_a_bug_is_an_error_body_without_details(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hub.accounts.api.who_am_i", lambda *_: 1 / 0)
    client.raise_request_exception = False
    reply = client.get("/api/v1/me", headers=bearer(make_token(make_user())))
    assert reply.status_code == 500
    assert reply.json()["error"]["code"] == "internal"
    assert "division" not in reply.content.decode()


@pytest.mark.parametrize("path", ["/api/v1/environments", "/environments", "/index/alice/simple/"])
def test_a_database_that_is_away_is_said_and_invites_another_try(client: Client, path: str) -> None:
    def away(*_: object) -> None:
        raise OperationalError("the connection was terminated")

    client.raise_request_exception = False
    with connection.execute_wrapper(away):
        reply = client.get(path)
    assert reply.status_code == 503
    if path.startswith("/api/"):
        assert reply.json()["error"]["code"] == "database_unavailable"
        assert reply["Retry-After"] == "1"


def test_a_full_disk_is_said_and_is_no_bug(client: Client) -> None:
    def write(*_: object) -> None:
        with open("/dev/full", "wb") as full:  # as every file of a file system without room
            full.write(b"x")

    client.raise_request_exception = False
    with connection.execute_wrapper(write):
        reply = client.get("/api/v1/environments")
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "hub_disk_full")
    assert "HUB_DATA" in reply.json()["error"]["hint"]


def test_a_full_disk_below_sqlite_is_said(client: Client) -> None:
    def full(*_: object) -> None:
        raise OperationalError("database or disk is full")

    with connection.execute_wrapper(full):
        reply = client.get("/api/v1/environments")
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "hub_disk_full")


def test_a_name_that_the_hub_does_not_have_is_told_with_the_one_that_it_has(client: Client) -> None:
    error = client.get("/api/v1/environments", headers={"Host": "other.example"}).json()["error"]
    assert (error["code"], error["message"]) == ("bad_request", "this hub does not answer to that name")
    assert str(settings.HUB.base_url).rstrip("/") in error["hint"]
    page = client.get("/", headers={"Host": "other.example"})
    assert page.status_code == 400
    assert error["hint"] in page.content.decode()
    assert "other.example" not in page.content.decode()


def test_the_poll_of_a_device_fails_in_oauths_words_whatever_the_name(client: Client) -> None:
    reply = client.post("/api/v1/device/token", {"device_code": "x"}, headers={"Host": "other.example"})
    assert (reply.status_code, reply.json()["error"]) == (400, "invalid_request")
    assert reply.headers["Cache-Control"] == "no-store"
