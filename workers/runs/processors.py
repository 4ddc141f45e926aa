"""What an attempt has had of processors so far: told by heartbeats too, so that it counts if the worker is killed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

IN_A_BOX = "/envhub-"  # in the name of its kernel's group, which counts its processes
_TICKS = os.sysconf("SC_CLK_TCK")


class Processors:
    """Counts from its making on, for a process that has one run at a time.

    `boxes_s`: what the boxes of this process have had so far.
    """

    def __init__(self, boxes_s: Callable[[], float] = lambda: 0.0) -> None:
        self._boxes_s = boxes_s
        self._began = self._total()
        self._most = 0.0

    def seconds(self) -> float:
        """Never less than before, also while a program ends and is not waited for yet."""
        self._most = max(self._most, round(self._total() - self._began, 3))
        return self._most

    def _total(self) -> float:
        used = os.times()
        ended = used.user + used.system + used.children_user + used.children_system
        return ended + sum(_had(pid) for pid in _programs(os.getpid())) + self._boxes_s()


def _programs(pid: int) -> Iterator[int]:
    """Those that a process has started, and theirs, without boxes."""
    for child in _children(pid):
        if not _is_boxed(child):
            yield child
            yield from _programs(child)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    except OSError:
        pass  # it has ended
    return found


def _is_boxed(pid: int) -> bool:
    try:
        return IN_A_BOX in Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return False


def _had(pid: int) -> float:
    """Of its own, and of those of its programs that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS
