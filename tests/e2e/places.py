"""A hub whose worker makes its sandboxes by one backend, and what must be left of them: nothing."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.demo.processes import Role, processes_of
from tests.e2e.caches import cache_root
from tests.e2e.stack import Stack, running_stack, wait_until
from tests.workers.sandbox.running_engine import RunningEngine, need_podman

IN_SANDBOX = "/run/envhub/python/"  # of the command line of what a box on an image starts
ROLES = {
    "runner": Role.RUNNER, "run": Role.EVAL_RUN, "host": Role.HOST, "worker": Role.WORKER, "web": Role.WEB,
}  # fmt: skip


@dataclass
class Place:
    """`engine` is the daemon of its containers, if they are containers."""

    stack: Stack
    engine: RunningEngine | None

    def sandboxes(self) -> list[int]:
        """The process of each that is its end, and that nobody inside can end by a signal."""
        if self.engine is not None:
            return self.engine.agents()
        inner_and_outer = {
            process.pid: process.parent
            for process in processes_of(self.stack.data)
            if process.command[:1] == ("bwrap",) and any(IN_SANDBOX in word for word in process.command)
        }
        return [pid for pid, parent in inner_and_outer.items() if parent not in inner_and_outer]

    def victims(self, name: str) -> list[int]:
        """The processes of that name."""
        if name == "sandbox":
            return self.sandboxes()
        if name in ROLES:
            return self.stack.pids(ROLES[name])
        assert self.engine is not None
        return self.engine.processes(name)


@contextmanager
def place_with_containers(data: Path) -> Iterator[Place]:
    """A hub of its own in the folder `data`, and a daemon that is started again when it has ended."""
    need_podman()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="eg-", dir="/tmp")))
        folder.chmod(0o711)
        engine = RunningEngine(folder, "--show", str(cache_root()))
        stack.enter_context(engine.kept_running())
        settings = {"WORKER_SANDBOXES": "podman,bwrap", "WORKER_SANDBOX_ENGINE": str(engine.socket)}
        yield Place(stack.enter_context(running_stack(data, settings)), engine)


def check_nothing_left(place: Place) -> None:
    """Neither processes nor files, mounts, control groups or tickets."""
    data = Path(place.stack.settings["WORKER_DATA"])
    wait_until(lambda: not place.sandboxes(), 30, lambda: "a sandbox outlived its run")
    wait_until(lambda: not boxes(data), 60, lambda: f"left: {boxes(data)}")
    assert "/boxes/" not in Path("/proc/self/mountinfo").read_text()
    assert all(is_free(ticket) for ticket in (data / "sandbox-tickets" / "living").iterdir())
    if place.engine is not None:
        engine = place.engine
        wait_until(lambda: not engine.leftovers(), 60, lambda: f"the engine left: {engine.leftovers()}")


def boxes(data: Path) -> list[str]:
    """Records and sockets of boxes. An empty folder is swept ten minutes after who removed a box was killed."""
    own = [path for path in (data / "boxes" / "boxes").rglob("*") if path.is_file()]
    return [str(path) for path in (*own, *(data / "boxes" / "sockets").iterdir())]


def is_free(ticket: Path) -> bool:
    with ticket.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
