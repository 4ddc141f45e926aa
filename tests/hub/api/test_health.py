"""/healthz and /readyz."""

from __future__ import annotations

import pytest
from django.test import Client

from hub.core.errors import Unavailable
from hub.storage.backends.files import FilesBackend


def test_healthz_answers_without_the_database(client: Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}


@pytest.mark.django_db
def test_readyz_names_each_part(client: Client) -> None:
    reply = client.get("/readyz")
    assert reply.json() == {"ready": True, "parts": {"database": "ok", "storage": "ok", "broker": "ok"}}


@pytest.mark.django_db
def test_readyz_is_503_while_a_part_is_down(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(self: FilesBackend) -> None:
        raise Unavailable("the disk is gone")

    monkeypatch.setattr(FilesBackend, "check", down)
    reply = client.get("/readyz")
    assert reply.status_code == 503
    assert reply.json()["parts"] == {"database": "ok", "storage": "the disk is gone", "broker": "ok"}
