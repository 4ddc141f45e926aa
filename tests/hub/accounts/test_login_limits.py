"""Guessing passwords is slow, and nobody can keep somebody else out by guessing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from hub.accounts.services import limit_login
from hub.accounts.services.limits import FREE_TRIES, TooManyRequests
from tests.factories.accounts import make_user

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def sign_in(client: Client, address: str, password: str = PASSWORD) -> int:
    return client.post("/login", {"username": "ada", "password": password}, REMOTE_ADDR=address).status_code


def spend_free_tries() -> None:
    for number in range(FREE_TRIES):
        limit_login(name="ada", address=f"10.0.0.{number}", known_browser=False, now=NOW)


def test_wrong_passwords_from_one_address_do_not_lock_the_user_out_elsewhere() -> None:
    make_user("ada", password=PASSWORD)
    statuses = [sign_in(Client(), "10.0.0.1", "wrong") for _ in range(11)]
    assert statuses == [401] * 10 + [429]
    assert sign_in(Client(), "10.0.0.2") == 302


def test_one_address_guesses_at_many_names_no_longer_than_at_thirty() -> None:
    for number in range(30):
        limit_login(name=f"user-{number}", address="10.0.0.1", known_browser=False, now=NOW)
    with pytest.raises(TooManyRequests):
        limit_login(name="another", address="10.0.0.1", known_browser=False, now=NOW)


def test_many_addresses_guess_at_one_name_with_growing_pauses() -> None:
    spend_free_tries()
    now, pauses = NOW, []
    for number in range(8):
        limit_login(name="ada", address=f"10.0.1.{number}", known_browser=False, now=now)
        with pytest.raises(TooManyRequests) as refused:
            limit_login(name="ada", address=f"10.0.2.{number}", known_browser=False, now=now)
        pauses.append(refused.value.retry_after)
        now += timedelta(seconds=refused.value.retry_after)
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]


def test_a_browser_that_has_signed_in_before_does_not_wait_for_others_guesses() -> None:
    make_user("ada", password=PASSWORD)
    known = Client()
    assert sign_in(known, "10.0.0.1") == 302
    known.post("/logout")
    for number in range(FREE_TRIES + 1):
        sign_in(Client(), f"10.0.1.{number}", "wrong")
    assert sign_in(Client(), "10.0.2.1") == 429
    assert sign_in(known, "10.0.0.1") == 302
