"""Every request has an id: in its answer, and in all lines that are logged for it."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from hub.core.requests.observed import Observed
from tests.hub.core.asgi import answer_of, plain


@pytest.mark.parametrize("given", ["proxy-1.a_B", "x" * 64])
def test_a_proxys_id_is_taken(given: str) -> None:
    assert answer_of(Observed(plain), {"X-Request-Id": given}).headers["x-request-id"] == given


@pytest.mark.parametrize("given", [None, "", "x" * 65, "two words", 'a"b'])
def test_without_one_that_can_stand_in_a_log_it_gets_one_of_its_own(given: str | None) -> None:
    headers = {} if given is None else {"X-Request-Id": given}
    answers = [answer_of(Observed(plain), headers).headers["x-request-id"] for _ in range(2)]
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in answers)
    assert len(set(answers)) == 2


def test_an_id_that_the_inside_gives_is_replaced() -> None:
    answer = answer_of(Observed(plain), {"X-Request-Id": "outer"})
    assert answer.headers.get_list("x-request-id") == ["outer"]


def test_the_web_server_logs_json_with_the_requests_id(tmp_path: Path) -> None:
    """The database has no tables, which the hub logs while it answers 503."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "HUB_DATA": str(tmp_path), "HUB_DATABASE_URL": "", "HUB_LOG_FORMAT": "json"}
    command = [sys.executable, "-m", "uvicorn", "hub.config.asgi:application", "--port", str(port)]
    server = subprocess.Popen([*command, "--lifespan", "off"], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        answer = _ask(f"http://127.0.0.1:{port}/api/v1/environments")
    finally:
        server.terminate()
        _, told = server.communicate(timeout=30)
    assert answer.status_code == 503
    lines = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    named = [line for line in lines if line.get("request_id") == "mine"]
    assert named
    assert {"time", "level", "logger", "message"} <= named[0].keys()
    assert any(line["logger"].startswith("uvicorn") for line in lines)


def _ask(url: str) -> httpx.Response:
    deadline = time.monotonic() + 60
    while True:
        try:
            return httpx.get(url, headers={"X-Request-Id": "mine"}, timeout=30)
        except httpx.TransportError:
            assert time.monotonic() < deadline
            time.sleep(0.2)
