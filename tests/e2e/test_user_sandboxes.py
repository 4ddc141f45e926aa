"""Sandboxes of a user, by the command line, on a real hub with a real worker."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from envhub.protocol.sandboxes import ProcessRequest, SandboxRequest, SandboxState
from websockets.sync.client import connect

from infra.demo.processes import Role
from tests.e2e.stack import HUB, Stack, answer_text, wait_until
from tests.fakes import echo_socket
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = [pytest.mark.sandbox]


@pytest.fixture
def sandbox(stack: Stack) -> Iterator[str]:
    """Its id."""
    made = stack.cli("sandbox", "create", "--name", "mine", "--label", "e2e", "-e", "A=b", "--timeout", "300")
    yield made.out.strip()
    stack.cli("sandbox", "delete", "--yes", made.out.strip())


def test_a_sandbox_runs_commands_holds_files_and_opens_ports(stack: Stack, sandbox: str, tmp_path: Path) -> None:
    done = stack.cli("sandbox", "exec", sandbox, "--", "sh", "-c", "echo $A; echo bad >&2; exit 7", code=7)
    assert (done.out, done.err) == ("b\n", "bad\n")
    source = tmp_path / "index.html"
    source.write_bytes(b"<script>alert(1)</script>" + bytes(200_000))
    stack.cli("sandbox", "upload", sandbox, str(source), "/app/")
    stack.cli("sandbox", "download", sandbox, "/app/index.html", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    with stack.client() as hub:
        assert [view.id for view in hub.sandboxes.list(label="e2e", state="running")] == [sandbox]
        found = hub.sandboxes.exec(sandbox, "sleep 60 & cd /app; nohup python3 -m http.server 8080 >/dev/null 2>&1 &")
        assert found.exit_code == 0
        address = stack.cli("sandbox", "ports", sandbox, "8080").out.strip()
        wait_until(lambda: httpx.get(f"{address}index.html").status_code == 200, 10, lambda: "no server", 0.05)
    page = httpx.get(f"{address}index.html", headers={"Cookie": "sessionid=x"})
    assert page.content == source.read_bytes()
    assert page.headers["content-security-policy"].startswith("sandbox ")
    assert "allow-same-origin" not in page.headers["content-security-policy"]
    assert httpx.get(address[:-3] + "xx/").status_code == 404


def test_a_port_speaks_web_socket(stack: Stack, sandbox: str) -> None:
    stack.cli("sandbox", "upload", sandbox, echo_socket.__file__, "/tmp/echo.py")
    with stack.client() as hub:
        hub.sandboxes.start(sandbox, ProcessRequest(command="exec python3 /tmp/echo.py 8081"))
        address = stack.cli("sandbox", "ports", sandbox, "8081").out.strip()
    wait_until(lambda: httpx.get(address).status_code == 404, 10, lambda: "no server", 0.05)
    with connect(f"ws{address.removeprefix('http')}socket", additional_headers={"Cookie": "sessionid=x"}) as socket:
        socket.send("hello")
        assert socket.recv(10) == "hello /socket []"


CALL = """
import json, os, urllib.request as web
url, body = os.environ["OPENAI_BASE_URL"], {"model": os.environ["OPENAI_MODEL"], "messages": []}
asked = web.Request(f"{url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
print(json.load(web.urlopen(asked))["choices"][0]["message"]["content"], "hub_" in str(os.environ))
"""


def test_a_sandbox_calls_the_models_that_it_was_made_with(stack: Stack) -> None:
    model = stack.register(PolicyEndpoint(answer=answer_text("hello")))
    done = stack.cli("sandbox", "run", "--model", model, "--", "python3", "-c", CALL)
    assert done.out == "hello False\n"


def test_one_command_in_a_sandbox_of_its_own(stack: Stack) -> None:
    done = stack.cli("sandbox", "run", "--json", "--", "cat /etc/passwd | head -1; exit 3", code=3)
    assert done.json["exit_code"] == 3
    assert done.json["output"].startswith("root:")


def test_a_shell_is_a_terminal_that_ends_with_its_status(stack: Stack, sandbox: str) -> None:
    leader, follower = pty.openpty()
    environment = {**stack.environment, "HUB_URL": stack.url, "HUB_TOKEN": stack.token, "TERM": "dumb"}
    command = [HUB, "sandbox", "shell", sandbox]
    process = subprocess.Popen(command, stdin=follower, stdout=follower, env=environment, start_new_session=True)
    os.close(follower)
    os.write(leader, b"test -t 0 && echo is a ter''minal; exit 5\n")
    assert "is a terminal" in read_until(leader, "is a terminal")
    assert process.wait(20) == 5
    os.close(leader)


def read_until(descriptor: int, text: str) -> str:
    got, deadline = "", time.monotonic() + 20
    while text not in got and time.monotonic() < deadline:
        if select.select([descriptor], [], [], 0.5)[0]:
            got += os.read(descriptor, 65536).decode(errors="replace")
    return got


def test_a_sandbox_whose_worker_is_killed_ends_and_leaves_nothing(stack: Stack) -> None:
    with stack.client() as hub:
        view = hub.sandboxes.wait(hub.sandboxes.create(SandboxRequest(timeout_s=300.0)).id)
        hub.sandboxes.exec(view.id, "sleep 4711 >/dev/null 2>&1 &")
        assert "4711" in processes()
        for pid in stack.pids(Role.HOST):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: "sleep\0004711" not in processes(), 20, lambda: "it still runs")
        wait_until(lambda: hub.sandboxes.get(view.id).state.is_final, 60, stack.log_tail)
        ended = hub.sandboxes.get(view.id)
        assert (ended.state, ended.failure and ended.failure.code) == (SandboxState.FAILED, "worker_lost")
        wait_until(lambda: bool(stack.pids(Role.HOST)), 60, stack.log_tail)
        again = hub.sandboxes.wait(hub.sandboxes.create().id)
        hub.sandboxes.delete(again.id)


def processes() -> str:
    """The command lines of all processes of this host."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.append((entry / "cmdline").read_text(errors="replace"))
            except OSError:
                continue
    return json.dumps(found) + "".join(found)
