"""Notice that a cluster's head is gone. Ray would wait for it for minutes, and calls that are under way never return.

Does not import Ray.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable

HEAD_LOST = 69  # EX_UNAVAILABLE, the exit status of a process whose cluster is gone
LOOK_S, LOOKS = 5.0, 4  # a head that does not answer so often in a row is lost
CONNECT_S = 5.0


class HeadLost(ConnectionError):
    """The cluster's head does not answer."""


def answers(address: str) -> bool:
    """Return whether somebody listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except (OSError, ValueError):
        return False
    return True


def wait_for_head(address: str, seconds: float = 0.0) -> None:
    """Wait until the head answers. Raises HeadLost if it does not within this time."""
    ends = time.monotonic() + seconds
    while not answers(address):
        if time.monotonic() >= ends:
            raise HeadLost(f"the head of the Ray cluster at {address} does not answer")
        time.sleep(1.0)


def end_without_head(address: str, end: Callable[[int], None] = os._exit, every_s: float = LOOK_S) -> None:
    """End this process with HEAD_LOST when the head is gone, from a thread: the event loop may be in a call of Ray."""

    def watch() -> None:
        missed = 0
        while missed < LOOKS:
            time.sleep(every_s)
            missed = 0 if answers(address) else missed + 1
        end(HEAD_LOST)

    threading.Thread(target=watch, name="head", daemon=True).start()
