"""Notice that a cluster's head is gone. Ray would wait for it for minutes, and calls that are under way never return.

A head that was started anew on the same port answers too. But Ray's node on this host ends with the old head, or within
half a minute if the head is on another host, so a process that is tied to a cluster also watches that node.

Does not import Ray.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable

from workers.runs.children import Process, read_process

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


def listener(path: str) -> Process | None:
    """Return the process that listens on a Unix socket; None if it cannot be seen from here."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(CONNECT_S)
        try:
            asking.connect(path)
        except OSError:
            return None
        pid, _, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return read_process(pid) if pid else None  # 0: it is in another container


def lives(process: Process) -> bool:
    """Return whether a process has not ended. Another one may have its pid by now."""
    found = read_process(process.pid)
    return found is not None and found.start == process.start


def wait_for_head(address: str, seconds: float = 0.0) -> None:
    """Wait until the head answers. Raises HeadLost if it does not within this time."""
    ends = time.monotonic() + seconds
    while not answers(address):
        if time.monotonic() >= ends:
            raise HeadLost(f"the head of the Ray cluster at {address} does not answer")
        time.sleep(1.0)


def end_without_head(
    address: str, node: Process | None, end: Callable[[int], None] = os._exit, every_s: float = LOOK_S
) -> None:
    """End this process with HEAD_LOST when the head, or Ray's node on this host, is gone.

    It looks from a thread, because the event loop may be in a call of Ray.
    """

    def watch() -> None:
        missed = 0
        while missed < LOOKS and (node is None or lives(node)):
            time.sleep(every_s)
            missed = 0 if answers(address) else missed + 1
        end(HEAD_LOST)

    threading.Thread(target=watch, name="head", daemon=True).start()
