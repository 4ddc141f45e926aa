"""Signals for the processes of a training run at chosen points of its protocol."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.workers.training.runs.trainings import Trainings
from workers.runs.children import read_process


def pid_of(trainings: Trainings, what: str) -> int | None:
    """A recorded child of the run."""
    for path in (trainings.data / "children").glob("*.json"):
        record = json.loads(path.read_text())
        if record["what"] == what:
            return int(record["pid"])
    return None


def runner_pid(trainings: Trainings) -> int | None:
    """The runner in this test's own box: the process below this one whose command line is the runner's."""
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if command[1:3] == [b"-m", b"envhub_runner"] and is_ours(int(entry.name)):
            return int(entry.name)
    return None


def is_ours(pid: int) -> bool:
    """Whether a process descends from this one."""
    while pid > 1:
        found = read_process(pid)
        if found is None:
            return False
        if found.parent == os.getpid():
            return True
        pid = found.parent
    return False


WHO: dict[str, Callable[[Trainings], int | None]] = {
    "learner": lambda trainings: pid_of(trainings, "learner"),
    "engine": lambda trainings: pid_of(trainings, "engine"),
    "runner": runner_pid,
}


async def strike_when(
    trainings: Trainings, who: str, ready: Callable[[], bool], task: asyncio.Task[Any], by: signal.Signals
) -> None:
    """Send a signal as soon as `ready`."""
    while not task.done():
        pid = WHO[who](trainings)
        if ready() and pid is not None:
            os.kill(pid, by)
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"the run ended before the {who} was struck")


def moments(trainings: Trainings) -> dict[str, Callable[[], bool]]:
    """Points of the protocol, seen from outside by the files that they leave."""
    root = trainings.data / "training" / "tr"
    return {
        "while sampling": lambda: (
            (root / "weights" / "v000001").exists()
            and (
                any((root / "groups").glob("group-*.json"))
                or (root / "journal" / "step-000002.safetensors").exists()  # its groups ended between two looks
            )
        ),
        "after a batch was journaled": lambda: (root / "journal" / "step-000002.safetensors").exists(),
        "after weights were published": lambda: (root / "weights" / "v000002").exists(),
    }
