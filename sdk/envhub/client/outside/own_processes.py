"""Whether this installation's own processes listen on a port of this machine: what users' URLs never lead to.

The hub and the worker start their servers and engines with MARK in the environment. Whoever resolves a user's URL looks
in /proc for who listens, so that no list of ports has to be kept, and ports that a library opens count too. It is a
second lock: engines and served models ask for keys.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MARK = "ENVHUB_PART"
PROC = Path("/proc")
LISTENING = "0A"


def is_own_listener(port: int) -> bool:
    """Whether a process that is marked, or whose session's first one is, listens there. False where nobody can tell."""
    inodes = set(listening_inodes(port))
    return bool(inodes) and any(is_marked(pid) for pid in holders(inodes))


def listening_inodes(port: int) -> Iterator[str]:
    """The sockets that listen on a port, on whatever address."""
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (PROC / "self/net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]


def holders(inodes: set[str]) -> Iterator[int]:
    """The processes that have one of the sockets open, as far as we may see."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for entry in os.scandir(PROC):
        if entry.name.isdigit():
            with suppress(OSError):
                links = (os.readlink(file.path) for file in os.scandir(f"{entry.path}/fd"))
                if any(link in wanted for link in links):
                    yield int(entry.name)


def is_marked(pid: int) -> bool:
    """By the environment that it was started with, or its session's: vLLM writes titles over that of some children."""
    return any(f"{MARK}=".encode() in variables_of(process) for process in {pid, session_of(pid)})


def variables_of(pid: int) -> list[bytes]:
    """The names, each with "=", that a process was started with."""
    with suppress(OSError):
        pairs = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
        return [pair.partition(b"=")[0] + b"=" for pair in pairs]
    return []


def session_of(pid: int) -> int:
    """The first process of its session."""
    with suppress(OSError):
        return os.getsid(pid)
    return pid
