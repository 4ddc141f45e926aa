"""A cluster's head that is gone is noticed, although Ray would wait for it."""

from __future__ import annotations

import socket
import threading

import pytest

from workers.inference.process import free_port
from workers.training.cluster.head import HEAD_LOST, LOOKS, HeadLost, answers, end_without_head, wait_for_head


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
    end_without_head("10.0.0.1:6379", lambda status: (statuses.append(status), ended.set())[0], every_s=0.001)
    assert ended.wait(20)
    assert (statuses, looks) == ([HEAD_LOST], said)


def test_an_address_of_the_sixth_version_is_understood() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as head:
        assert answers(f"[::1]:{head.getsockname()[1]}")
