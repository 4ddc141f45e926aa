"""What `manage.py serve` leaves on the disk is for its user alone; what its worker makes, boxes can read."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError
from pydantic import HttpUrl
from pytest_django import Settings
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from hub.config.environment import HubEnvironment
from hub.web.management.commands.serve import (
    WORKER_UMASK,
    check_address,
    check_free,
    claim_data,
    close_data,
    login_link_command,
    take_address,
    web_command,
    with_public_data,
)
from hub.web.supervisor import Child


def test_what_an_earlier_start_left_open_is_closed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(0o755)
    before = os.umask(0o022)
    try:
        close_data(data)
        (data / "hub.sqlite3-wal").touch()
    finally:
        os.umask(before)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in (data, data / "hub.sqlite3-wal")}
    assert modes == {"data": "0o700", "hub.sqlite3-wal": "0o600"}


def test_the_workers_files_can_be_read_by_its_boxes(tmp_path: Path) -> None:
    made = tmp_path / "made"
    child = Child("worker", [sys.executable, "-c", f"open({str(made)!r}, 'w')"], os.environ, umask=WORKER_UMASK)
    before = os.umask(0o077)
    try:
        child.start()
    finally:
        os.umask(before)
    assert child.process is not None
    child.process.wait(20)
    assert made.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("given", "host", "used"),
    [
        (None, "127.0.0.1", "http://127.0.0.1:8123/"),
        (None, "0.0.0.0", "http://127.0.0.1:8123/"),
        ("https://hub.example.org", "0.0.0.0", "https://hub.example.org/"),
    ],
)
def test_links_lead_to_the_port_that_is_asked_for_unless_the_operator_says_where(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, given: str | None, host: str, used: str
) -> None:
    monkeypatch.setenv("HUB_BASE_URL", given or "")
    if given is None:
        monkeypatch.delenv("HUB_BASE_URL")
    settings.HUB = HubEnvironment()
    take_address(host, 8123)
    assert str(settings.HUB.base_url) == str(HubEnvironment().base_url) == used


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_an_address_that_nobody_can_type_is_refused_before_links_are_made_of_it(host: str) -> None:
    with pytest.raises(CommandError, match="HUB_BASE_URL"):
        check_address(host)


def test_a_port_in_use_is_refused_and_a_free_one_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(CommandError, match=f"cannot listen on 127.0.0.1:{port}.*PORT="):
            check_free("127.0.0.1", port, patience_s=0)
    check_free("127.0.0.1", port)


def test_a_second_hub_with_a_worker_is_refused_while_the_first_one_lives(tmp_path: Path) -> None:
    with claim_data(tmp_path), pytest.raises(CommandError, match=r"already serves.*DATA="):
        claim_data(tmp_path)
    claim_data(tmp_path).close()


def test_the_web_server_listens_where_it_is_told_to() -> None:
    command = web_command("192.0.2.7", 8001)
    assert [command[command.index(option) + 1] for option in ("--host", "--port")] == ["192.0.2.7", "8001"]


@pytest.mark.parametrize(("named", "counted"), [("", "127.0.0.1"), ("127.0.0.1", "10.9.8.7")])
def test_limits_count_the_address_of_a_named_proxys_client_and_nobodys_else(
    monkeypatch: pytest.MonkeyPatch, named: str, counted: str
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", named)
    command = web_command("127.0.0.1", 8001)
    trusted = command[command.index("--forwarded-allow-ips") + 1]
    seen: list[str] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["client"][0])

    headers = [(b"x-forwarded-for", b"10.9.8.7")]
    scope = {"type": "http", "client": ("127.0.0.1", 1234), "headers": headers, "scheme": "http"}
    asyncio.run(ProxyHeadersMiddleware(application, trusted)(scope, None, None))  # type: ignore[arg-type]
    assert seen == [counted]


def test_the_advice_for_a_lost_link_makes_one_of_this_hub(tmp_path: Path, settings: Settings) -> None:
    settings.HUB = settings.HUB.model_copy(update={"data": tmp_path, "base_url": HttpUrl("http://127.0.0.1:8123")})
    words = shlex.split(login_link_command())
    assert words[:2] == [f"HUB_DATA={tmp_path}", "HUB_BASE_URL=http://127.0.0.1:8123"]
    assert words[-3:] == ["manage.py", "login_link", "admin"]


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ({}, "https://huggingface.co"),
        ({"HUB_HUGGINGFACE_URL": "none"}, ""),
        ({"HUB_HUGGINGFACE_URL": "https://m.test"}, "https://m.test"),
    ],
)
def test_public_data_sets_are_read_through_unless_the_operator_says_otherwise(
    given: dict[str, str], used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_HUGGINGFACE_URL", with_public_data(given)["HUB_HUGGINGFACE_URL"])
    assert HubEnvironment().huggingface_url == used
