"""Standard input of `hub sandbox exec` and keys of `hub sandbox shell`, on a hub that refuses some of them."""

from __future__ import annotations

import json
import os
import pty
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
import typer
from envhub.cli.main import app
from envhub.cli.sandboxes import execute, shell
from envhub.cli.terminal.session import Session
from envhub.errors import EnvhubError
from envhub.protocol.sandboxes.sandboxes import ProcessRequest

STARTED = {"pid": 7, "argv": ["cat"], "started_at": datetime.now(UTC).isoformat(), "seconds": 0.0, "output_bytes": 0}
REFUSED = (503, "unavailable")
ENDED = (409, "process_ended")
LIMITED = (429, "rate_limited")


@dataclass
class Hub:
    """One process. It ends once it is killed or its input has ended; `refusals` answer its first inputs, in turn."""

    refusals: list[tuple[int, str]]
    most: int | None = None  # bytes that its program takes at once
    got: list[bytes] = field(default_factory=list)
    killed: bool = False
    began: threading.Event = field(default_factory=threading.Event)  # to send its output
    asked: threading.Event = field(default_factory=threading.Event)  # about an input
    answering: threading.Event = field(default_factory=threading.Event)
    answered: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.answering.set()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        action = request.url.path.rpartition("/")[2]
        if action == "processes":
            return httpx.Response(200, json=STARTED)
        if action == "output":
            self.began.set()
            assert self.ended.wait(20)
            end = {"seq": 1, "kind": "end", "exit_code": 137 if self.killed else 0}
            return httpx.Response(200, text=json.dumps(end) + "\n")
        if action == "input":
            self.asked.set()
            assert self.answering.wait(20)
            answer = self._input(request)
            self.answered.set()
            return answer
        assert request.method == "DELETE"
        assert self.answering.wait(20)
        self.killed = True
        self.ended.set()
        return httpx.Response(200, json={})

    def _input(self, request: httpx.Request) -> httpx.Response:
        if self.refusals:
            status, code = self.refusals.pop(0)
            if code == "process_ended":
                self.ended.set()
            return httpx.Response(status, json={"error": {"code": code, "message": "not now"}})
        data = request.read()
        if self.most is not None and len(data) > self.most:
            self.got.append(data[: self.most])
            return httpx.Response(200, json={"bytes": self.most})
        self.got.append(data)
        if "end" in request.url.params:
            self.ended.set()
        return httpx.Response(200, json={})


def connected(hub: Hub, tmp_path: Path) -> Session:
    environ = {"HUB_URL": "http://hub.test", "HUB_TOKEN": "hub_x"}
    return Session(httpx.MockTransport(hub), environ, tmp_path / "config.toml")


def run_with_input(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    (tmp_path / "input").write_bytes(b"words\n")
    with (tmp_path / "input").open() as source:
        monkeypatch.setattr(sys, "stdin", source)
        return execute._run(connected(hub, tmp_path), "some-id", ProcessRequest(argv=("cat",), stdin=True), None)


def test_input_that_is_refused_ends_the_process_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub([REFUSED])
    with pytest.raises(EnvhubError, match="standard input was not passed on to its end: not now"):
        run_with_input(hub, tmp_path, monkeypatch)
    assert hub.killed


def test_input_goes_on_after_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub([LIMITED])
    assert run_with_input(hub, tmp_path, monkeypatch) == 0
    assert hub.got == [b"words\n", b""]


def test_a_program_that_reads_late_gets_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub([], most=4)
    assert run_with_input(hub, tmp_path, monkeypatch) == 0
    assert (hub.got, hub.killed) == ([b"word", b"s\n", b""], False)


def test_a_process_that_ends_before_its_input_keeps_its_own_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Hub([ENDED])
    assert run_with_input(hub, tmp_path, monkeypatch) == 0
    assert not hub.killed


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A terminal as standard input; what is written to the descriptor is typed."""
    leader, follower = pty.openpty()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(fileno=lambda: follower, isatty=lambda: True))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which the processes of pytest-xdist ignore
    yield leader
    signal.signal(signal.SIGINT, before)
    os.close(leader)
    os.close(follower)


def shell_of(hub: Hub, tmp_path: Path, type_keys: Callable[[], None]) -> None:
    """`hub sandbox shell` while `type_keys` runs."""
    typing = threading.Thread(target=type_keys)
    typing.start()
    try:
        shell.shell(typer.Context(typer.main.get_command(app), obj=connected(hub, tmp_path)), "some-id")
    finally:
        typing.join()


def press(keyboard: int, hub: Hub, *keys: bytes) -> None:
    """Types each key once the one before has been answered."""
    assert hub.began.wait(20)
    for key in keys:
        hub.answered.clear()
        os.write(keyboard, key)
        assert hub.answered.wait(20)


def test_a_lost_key_locks_no_terminal(keyboard: int, tmp_path: Path) -> None:
    hub = Hub([REFUSED])

    def type_keys() -> None:
        press(keyboard, hub, b"a", b"b")
        os.write(keyboard, shell.LEAVE)

    with pytest.raises(KeyboardInterrupt):
        shell_of(hub, tmp_path, type_keys)
    assert (hub.got, hub.killed) == ([b"b"], True)


def test_it_can_be_left_while_the_hub_does_not_answer(
    keyboard: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "KILL_S", 0.05)
    hub = Hub([])
    hub.answering.clear()

    def type_keys() -> None:
        assert hub.began.wait(20)
        os.write(keyboard, b"a")
        assert hub.asked.wait(20)
        os.write(keyboard, shell.LEAVE)

    with pytest.raises(KeyboardInterrupt):
        shell_of(hub, tmp_path, type_keys)
    assert (hub.got, hub.killed) == ([], False)
    hub.answering.set()


def test_keys_that_are_refused_again_and_again_end_it_with_the_reason(keyboard: int, tmp_path: Path) -> None:
    hub = Hub([REFUSED] * 5)
    with pytest.raises(EnvhubError, match="not now"):
        shell_of(hub, tmp_path, lambda: press(keyboard, hub, *[b"a"] * 5))
    assert hub.killed
