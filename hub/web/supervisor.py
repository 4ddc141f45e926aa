"""Keeps the processes of an embedded hub running: starts, restarts with back-off, stops them together.

Called by `manage.py serve`. Production uses systemd, compose or Kubernetes instead.
"""

from __future__ import annotations

import ctypes
import logging
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

logger = logging.getLogger(__name__)
PR_SET_PDEATHSIG = 1
LONGEST_STOP_S = 45.0  # of one child; a worker's slots have 30
_libc = ctypes.CDLL(None)


def end_with_parent() -> None:
    """For `preexec_fn`: the new process gets SIGTERM should this one be killed."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass
class Child:
    """One process to keep running."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    umask: int = -1  # the supervisor's own
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    failures: int = field(default=0, init=False)
    started_at: float = field(default=0.0, init=False)
    not_before: float = field(default=0.0, init=False)

    def start(self) -> None:
        """Start the process; it gets SIGTERM should this one be killed."""
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(  # only prctl runs between fork and exec
            self.command,
            env=dict(self.environment),
            preexec_fn=end_with_parent,
            start_new_session=True,
            umask=self.umask,
        )


class Supervisor:
    """Runs children until `stop` is called (from a signal handler)."""

    def __init__(self, children: Sequence[Child]) -> None:
        self.children = children
        self._stopped = threading.Event()

    def stop(self, *_: object) -> None:
        """End `run`."""
        self._stopped.set()

    def run(self) -> None:
        """Start everything; restart what ends, at most every 1, 2, 4 ... 30 seconds; return after `stop`."""
        for child in self.children:
            child.start()
        while not self._stopped.wait(0.2):
            for child in self.children:
                self._revive(child)
        self._end()

    def _revive(self, child: Child) -> None:
        now = time.monotonic()
        if child.process is None:
            if now >= child.not_before:
                child.start()
            return
        status = child.process.poll()
        if status is None:
            return
        child.failures = 0 if now - child.started_at > 60 else child.failures + 1
        wait = min(30.0, 2.0 ** (child.failures - 1)) if child.failures else 0.0
        logger.warning("%s ended with status %s; starting it again in %.0f s", child.name, status, wait)
        child.process, child.not_before = None, now + wait

    def _end(self) -> None:
        """One after the other, the last first: a worker gives its runs back to a hub that still answers."""
        for child in reversed(self.children):
            if child.process is None:
                continue
            child.process.terminate()
            try:
                child.process.wait(timeout=LONGEST_STOP_S)
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
