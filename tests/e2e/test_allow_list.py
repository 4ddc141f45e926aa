"""A host that a starter grants within what the operator allows is reached from the box; all else is said clearly."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from envhub.protocol.packages import VersionState
from envhub.protocol.rollouts import Outcome

from tests.e2e.package_runs import PACKAGES
from tests.e2e.stack import Stack, answer_text
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox, pytest.mark.xdist_group("e2e")]
WORD = "periwinkle"


def own_address() -> str:
    """An address of this machine that is not loopback: in a box loopback is the box's own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        with suppress(OSError):
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        address: str = probe.getsockname()[0]
    if address in {"0.0.0.0", "127.0.0.1"}:
        pytest.skip("this machine has no address but loopback")
    return address


class Word(BaseHTTPRequestHandler):
    """Answers every request with the word."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(WORD)))
        self.end_headers()
        self.wfile.write(WORD.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """host:port of a plain HTTP server of the operator's network."""
    with ThreadingHTTPServer((own_address(), 0), Word) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"{server.server_address[0]}:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def permitted(stack: Stack, server: str) -> Iterator[str]:
    """The environment, on a hub whose operator allows this server and nothing else."""
    with stack.restarted(HUB_BOX_ALLOW_HOSTS=json.dumps([server])):
        version = stack.wait_ready(stack.push(PACKAGES / "e2e-fetch"))
        assert version.state is VersionState.READY, version.failure
        yield f"{version.owner}/{version.name}"


@pytest.fixture(scope="module")
def model(stack: Stack, permitted: str) -> str:
    """A model that knows the word."""
    return stack.register(PolicyEndpoint(answer=answer_text(WORD)))


def arguments(environment: str, model: str, server: str) -> tuple[str, ...]:
    args = json.dumps({"address": f"http://{server}/word"})
    return ("eval", "run", environment, "-m", model, "-n", "1", "-r", "2", "--env-args", args, "--json")


def test_a_granted_host_is_reached_from_the_box(stack: Stack, permitted: str, model: str, server: str) -> None:
    view = stack.cli(*arguments(permitted, model, server), "--allow-host", server).json
    assert [row.reward for row in stack.rollouts(view["id"])] == [1.0, 1.0]


def test_without_the_grant_the_failure_says_what_to_do(stack: Stack, permitted: str, model: str, server: str) -> None:
    view = stack.cli(*arguments(permitted, model, server), code=None).json
    rows = stack.rollouts(view["id"])
    assert {(row.outcome, row.reward) for row in rows} == {(Outcome.FAILED, None)}
    assert all("--allow-host" in row.failure_message for row in rows), rows


def test_a_host_that_the_operator_does_not_allow_is_refused_at_once(
    stack: Stack, permitted: str, model: str, server: str
) -> None:
    refused = stack.cli(*arguments(permitted, model, server), "--allow-host", "example.org:80", code=1)
    assert "example.org:80" in refused.err
    assert "HUB_BOX_ALLOW_HOSTS" in refused.err
