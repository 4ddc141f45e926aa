"""A cluster's head that is gone is noticed, although Ray would wait for it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from workers.inference.process import free_port
from workers.runs.children import read_process
from workers.training.cluster.head import (
    HEAD_LOST,
    LOOKS,
    HeadLost,
    answers,
    end_without_head,
    listener,
    lives,
    wait_for_head,
)


def test_a_head_that_does_not_answer_is_named() -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(HeadLost, match=f"the head of the Ray cluster at {address} does not answer"):
        wait_for_head(address)


def test_a_head_may_come_back_while_it_is_awaited() -> None:
    port = free_port()
    with socket.socket() as head:
        head.bind(("127.0.0.1", port))
        threading.Timer(0.3, head.listen).start()
        wait_for_head(f"127.0.0.1:{port}", 20)


def test_a_process_ends_when_its_head_has_not_answered_several_times(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[bool] = []
    said = [False, False, True, *[False] * LOOKS]

    def look(_: str) -> bool:
        looks.append(said[len(looks)])
        return looks[-1]

    monkeypatch.setattr("workers.training.cluster.head.answers", look)
    ended, statuses = threading.Event(), list[int]()
    end_without_head("10.0.0.1:6379", None, lambda status: (statuses.append(status), ended.set())[0], every_s=0.001)
    assert ended.wait(20)
    assert (statuses, looks) == ([HEAD_LOST], said)


LISTEN = """
import socket, sys
with socket.socket(socket.AF_UNIX) as made:
    made.bind(sys.argv[1])
    made.listen()
    print(flush=True)
    sys.stdin.read()
"""


def test_a_head_that_is_started_anew_on_its_port_is_noticed_by_the_node_that_ended(tmp_path: Path) -> None:
    path = str(tmp_path / "raylet")
    command = [sys.executable, "-c", LISTEN, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as node:
        assert node.stdout is not None
        node.stdout.readline()
        found = listener(path)
        assert found is not None
        assert found.pid == node.pid
        ended, statuses = threading.Event(), list[int]()
        with socket.create_server(("127.0.0.1", 0)) as head:  # always answers
            address = f"127.0.0.1:{head.getsockname()[1]}"
            end_without_head(address, found, lambda status: (statuses.append(status), ended.set())[0], every_s=0.01)
            assert not ended.wait(0.2)
            node.kill()
            assert ended.wait(20)
    assert statuses == [HEAD_LOST]
    assert not lives(replace(read_process(os.getpid()), start=1))  # type: ignore[type-var]


def test_a_node_that_cannot_be_found_is_not_watched(tmp_path: Path) -> None:
    assert listener(str(tmp_path / "none")) is None


def test_an_address_of_the_sixth_version_is_understood() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as head:
        assert answers(f"[::1]:{head.getsockname()[1]}")
