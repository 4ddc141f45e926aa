"""Clients of a protocol that the hub does not speak get one clear error at every call; others notice nothing."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from envhub import __version__
from envhub.protocol.placing.releases import HEADER, PROTOCOL
from envhub.protocol.runs import JoinRequest

from tests.factories.accounts import bearer
from tests.factories.runs import make_worker_token

pytestmark = pytest.mark.django_db
JOIN = "/api/v1/workers/join"


def join(client: Client, **headers: str) -> Any:
    secret, _ = make_worker_token()
    body = JoinRequest(name="w", hostname="h", queues=(), slots={}, sandbox="bwrap").model_dump_json()
    return client.post(JOIN, body, content_type="application/json", headers=bearer(secret) | headers)


def test_a_worker_learns_which_releases_the_hub_speaks_with(client: Client) -> None:
    answer = join(client, **{HEADER: str(PROTOCOL)})
    told = answer.json()
    assert (answer.status_code, answer[HEADER]) == (200, str(PROTOCOL))
    assert (told["release"], told["protocol"], told["oldest_protocol"]) == (__version__, PROTOCOL, 1)


def test_a_worker_from_before_the_number_joins(client: Client) -> None:
    assert join(client).status_code == 200


@pytest.mark.parametrize(("number", "who"), [(PROTOCOL + 1, "Upgrade the hub first"), (0, "Upgrade this worker")])
def test_a_client_of_another_protocol_hears_what_to_upgrade(client: Client, number: int, who: str) -> None:
    answer = client.get("/api/v1/environments", headers={HEADER: str(number)})
    assert answer.status_code == 426
    assert answer.json()["error"]["hint"].startswith(who)


def test_when_the_first_protocol_is_given_up_workers_that_say_no_number_are_told(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("envhub.protocol.placing.releases.OLDEST", 2)
    monkeypatch.setattr("envhub.protocol.placing.releases.PROTOCOL", 2)
    assert join(client).json()["error"]["code"] == "client_too_old"
    assert client.get("/api/v1/environments").status_code == 200, "curl is nobody's release"


def test_pages_are_for_browsers_of_any_age(client: Client) -> None:
    assert client.get("/healthz", headers={HEADER: "99"}).status_code == 200
