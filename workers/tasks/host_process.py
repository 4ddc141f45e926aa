"""The host process as Celery's main process sees it: start it, tell it things, stop it."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress

from workers.runs.children import Children
from workers.tasks.host import FAREWELL_S, Joined, Told

logger = logging.getLogger(__name__)


class HostProcess:
    """`consumed` are the queues that it was last told to have room for."""

    def __init__(self, process: subprocess.Popen[bytes], children: Children, forwarded: tuple[str, ...]) -> None:
        self.forwarded = forwarded
        self.worker_id = ""
        self.consumed: frozenset[str] = frozenset()
        self._process = process
        self._children = children
        self._stopping = False

    @classmethod
    def start(cls, children: Children, slots: dict[str, int], forwarded: tuple[str, ...]) -> HostProcess:
        """Raises OSError, e.g. on a full disk."""
        process = subprocess.Popen(
            [sys.executable, "-m", "workers.tasks.host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        children.record(process.pid, what="host process")
        host = cls(process, children, forwarded)
        host.tell(Told(slots=slots, forwarded=forwarded))
        return host

    def joined(self) -> Joined:
        """Wait until the hub has let this worker in. Raises OSError when the process ended before."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise OSError(f"the host process ended with {self._process.wait()}")
        joined = Joined.model_validate_json(line)
        self.worker_id = joined.worker_id
        return joined

    def tell(self, told: Told) -> None:
        """One line. A process that has ended is noticed elsewhere."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError, ValueError):  # it ended; the pipe was closed
            self._process.stdin.write(told.model_dump_json(exclude_defaults=True).encode() + b"\n")
            self._process.stdin.flush()

    def consume(self, queues: Iterable[str], processes: int | None = None) -> None:
        """Say which queues are consumed now, and how many children the pool has."""
        self.consumed = frozenset(queues)
        self.tell(Told(consumed=tuple(sorted(self.consumed)), processes=processes))

    def stop_softly(self) -> None:
        """It gives its own runs back, and asks the pool's children to give back theirs. Does not wait."""
        self._stopping = True
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def wait(self, grace_s: float) -> None:
        """Until all is given back; past the grace it is killed."""
        try:
            self._process.wait(grace_s + 2 * FAREWELL_S)
        except subprocess.TimeoutExpired:
            logger.error("the host process did not stop in time")
        self._children.end(self._process.pid)

    def ended_by_itself(self) -> bool:
        """True once, when it ended and nobody had asked it to."""
        if self._stopping or self._process.poll() is None:
            return False
        self._stopping = True
        return True

    def leave(self) -> None:
        """In a forked child: its pipe must end with its parent."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
