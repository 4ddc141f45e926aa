"""No request, signed or not, can fill the disk: its body is bounded before Django writes it down."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from django.conf import settings

from hub.config.asgi import application
from hub.storage.form_room import with_room
from hub.storage.queries import backend
from hub.storage.uploads import body_limit

SHA256 = "ab" * 32


async def status_of(scope: dict[str, Any], pieces: Iterable[bytes]) -> int:
    """What the whole application answers to a body that comes in pieces."""
    sent: list[Any] = []
    bodies = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    waiting = iter([*bodies, {"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> Any:
        for message in waiting:
            return message
        await asyncio.Event().wait()  # the client stays
        return None

    async def send(message: Any) -> None:
        sent.append(message)

    await application(scope, receive, send)
    return int(sent[0]["status"])


def put(path: str, query: str = "", **headers: str) -> dict[str, Any]:
    named = {"host": "127.0.0.1", **headers}
    encoded = [(name.replace("_", "-").encode(), value.encode()) for name, value in named.items()]
    scope = {"type": "http", "http_version": "1.1", "scheme": "http", "method": "PUT", "path": path}
    return {**scope, "raw_path": path.encode(), "query_string": query.encode(), "headers": encoded, "root_path": ""}


@pytest.mark.django_db  # a thread of the application may have a connection of an earlier test
async def test_a_length_beyond_the_limit_is_refused_unread() -> None:
    assert await status_of(put("/api/v1/nothing", content_length=str(10**12)), iter(())) == 413


@pytest.mark.django_db
async def test_a_body_without_a_length_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "DATA_UPLOAD_MAX_MEMORY_SIZE", 100)
    assert await status_of(put("/api/v1/nothing"), [b"x" * 60, b"x" * 60]) == 413
    assert await status_of(put("/api/v1/nothing"), [b"x" * 60]) == 404


def test_an_upload_may_have_the_bytes_that_it_announced() -> None:
    url = urlsplit(backend().presign_put(SHA256, 5 * 1024**3, holder=uuid4(), seconds=60).url)
    assert body_limit(put(url.path, url.query)) == 5 * 1024**3
    other = url.path.replace(SHA256, "cd" * 32)
    assert body_limit(put(other, url.query)) == body_limit(put(url.path)) == settings.DATA_UPLOAD_MAX_MEMORY_SIZE


def test_a_form_may_send_what_its_page_has_given_room_for() -> None:
    path, _, query = with_room("/environments/new", 10**9).partition("?")
    post = {**put(path, query), "method": "POST"}
    assert body_limit(post) == 10**9
    assert body_limit({**post, "path": "/login"}) == settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    assert body_limit({**post, "query_string": b"room=forged"}) == settings.DATA_UPLOAD_MAX_MEMORY_SIZE
