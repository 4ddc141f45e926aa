"""What has not changed is not sent again."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.factories.accounts import make_user
from tests.factories.registry import create_ready_version

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["/api/v1/environments", "/docs/sandboxes"])
def test_an_answer_is_sent_once_while_it_stays_the_same(path: str) -> None:
    client = Client()
    first = client.get(path)
    again = client.get(path, headers={"If-None-Match": first["ETag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


def test_an_answer_that_changed_is_sent() -> None:
    client = Client()
    tag = client.get("/api/v1/environments")["ETag"]
    create_ready_version(make_user("alice"))
    answer = client.get("/api/v1/environments", headers={"If-None-Match": tag})
    assert (answer.status_code, answer["ETag"] != tag) == (200, True)


def test_pages_with_forms_have_none() -> None:
    assert "ETag" not in Client().get("/environments")
