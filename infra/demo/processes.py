"""The processes of one hub on this machine, found in /proc by its data directory. For fault drills and their tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

PROC = Path("/proc")


class Role(StrEnum):
    """What a process does."""

    WEB = "hub web process"
    SWEEPER = "sweeper"
    WORKER = "worker"
    HOST = "worker's host process"
    BUILD_RUN = "process of a build"
    EVAL_RUN = "process of an evaluation"
    RUNNER = "runner in its box"


# Two words that follow each other on the command line.
WORDS = {
    Role.WEB: ("uvicorn", "hub.config.asgi:application"),
    Role.SWEEPER: ("manage.py", "sweep"),
    Role.WORKER: ("--app", "workers"),
    Role.HOST: ("-m", "workers.tasks.host"),
    Role.RUNNER: ("-m", "envhub_runner"),
}
NAMES = {Role.BUILD_RUN: "build run", Role.EVAL_RUN: "eval run"}  # of a worker's children while they have one


@dataclass(frozen=True)
class Process:
    """One row of the process table."""

    pid: int
    parent: int
    name: str  # what `ps -o comm` shows
    command: tuple[str, ...]

    def is_a(self, role: Role) -> bool:
        """Whether it is an interpreter that does this."""
        if role in NAMES:
            return self.name == NAMES[role]
        is_child = self.name.endswith((" run", " child"))  # a fork of its worker, with the same command line
        return "python" in Path(self.command[0]).name and WORDS[role] in pairwise(self.command) and not is_child


def processes_of(data: Path) -> list[Process]:
    """Every process whose HUB_DATA is `data`, with all their descendants (a box's variables are its own)."""
    table = {process.pid: process for entry in PROC.iterdir() if (process := _read(entry)) is not None}
    mark = f"HUB_DATA={data}".encode()
    found = {pid for pid in table if mark in _environment(pid)}
    grown = True
    while grown:
        below = {process.pid for process in table.values() if process.parent in found} - found
        found |= below
        grown = bool(below)
    return [table[pid] for pid in sorted(found - {os.getpid()})]


def find(data: Path, role: Role) -> list[int]:
    """Process ids of a role."""
    return [process.pid for process in processes_of(data) if process.command and process.is_a(role)]


def kill(pids: Iterable[int]) -> list[int]:
    """kill -9; the ids that were still there."""
    killed = []
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
    return killed


def _read(entry: Path) -> Process | None:
    if not entry.name.isdigit():
        return None
    try:
        stat = (entry / "stat").read_text()
        words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    state, parent = stat.rpartition(")")[2].split()[:2]
    name = stat.partition("(")[2].rpartition(")")[0]
    return None if state in "ZX" else Process(int(entry.name), int(parent), name, tuple(words[:-1]))


def _environment(pid: int) -> list[bytes]:
    with suppress(OSError):
        return (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    return []
