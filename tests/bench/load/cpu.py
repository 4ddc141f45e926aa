"""Seconds of CPU that processes have used: what a rollout costs, whatever else runs on the machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def used_by(roots: Iterable[int]) -> float:
    """By these processes and all below them, those that have ended included."""
    table = {
        int(entry.name): found for entry in Path("/proc").iterdir() if entry.name.isdigit() and (found := _stat(entry))
    }
    below, grown = set(roots), True
    while grown:
        more = {pid for pid, (parent, _, _) in table.items() if parent in below} - below
        below |= more
        grown = bool(more)
    return TICK_S * sum(own + ended for pid in below if pid in table for _, own, ended in [table[pid]])


def _stat(entry: Path) -> tuple[int, int, int] | None:
    """(parent, own ticks, those of its ended children)."""
    try:
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    own, ended = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return int(fields[1]), own, ended
