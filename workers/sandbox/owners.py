"""Which process made something on disk, and whether it still lives."""

import os
from pathlib import Path


def started_at(pid: int) -> int:
    """The process's start in clock ticks since boot, which with its pid names it for ever; 0 when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    fields = stat.rpartition(b")")[2].split()
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def lives(pid: int, start: int) -> bool:
    return start != 0 and started_at(pid) == start


def pid_namespace() -> int:
    """The number of the namespace in which this process's pids count."""
    return os.stat("/proc/self/ns/pid").st_ino
