"""Keep the learner's process alive within bounds: restart it, kill it when it is silent, and report why it failed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envhub.protocol.placing.gpus import Gpu
from envhub.protocol.runs import Failure, FailureKind

from workers.inference.process import PASSED, QUIET, lines_of, spawn, visible_devices
from workers.runs.children import Children
from workers.runs.disk_full import DISK_FULL, says_disk_full
from workers.runs.errors import RunFailed
from workers.training.learner.directory.run_dir import RunDir
from workers.training.learner.errors import (
    BadCheckpoint,
    BadConfig,
    BadJournal,
    BadModel,
    LearnerError,
    NotFinite,
    OutOfMemory,
)

RESTARTS = 3  # without a finished step in between
PAUSE_S = 1.0
LOADING_S = 900.0  # until a new process's first heartbeat: it loads torch and waits for its peers
KEPT_LINES, LINE_CHARS = 60, 2000
# Every micro-batch has different sizes: fixed segments would fragment, and could not be freed at the end of a turn.
ALLOCATOR = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
KINDS: dict[int, tuple[type[LearnerError], FailureKind]] = {
    kind.exit_status: (kind, blame)
    for kind, blame in (
        (BadConfig, FailureKind.LIMIT),
        (BadModel, FailureKind.LIMIT),
        (OutOfMemory, FailureKind.LIMIT),
        (NotFinite, FailureKind.POLICY),
        (BadJournal, FailureKind.INFRASTRUCTURE),
        (BadCheckpoint, FailureKind.INFRASTRUCTURE),
    )
}
HINTS = {
    OutOfMemory.code: 'Set a smaller trainer.token_budget or seq_len, or train with mode = "lora".',
    BadModel.code: "hub model list says what can be trained here.",
}


@dataclass
class LearnerKeeper:
    """Keeps the learner running. `run` returns once the learner has finished its last step. Raises RunFailed."""

    run_dir: RunDir
    children: Children
    home: Path  # for Triton's compiled kernels
    log: Callable[[str], None]
    run_id: str
    stall_s: float = 180.0
    gpus: tuple[Gpu, ...] = ()  # none: on the CPU
    launcher: tuple[str, ...] = ()  # the module that starts processes on several hosts; empty: they all run here
    surroundings: Mapping[str, str] = field(default_factory=dict)  # the launcher's environment
    pid: int | None = field(default=None, init=False)
    _lines: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES), init=False)

    async def run(self) -> None:
        """Start the learner, again and again while that may help."""
        failures, step = 0, self._step()
        while True:
            status = await self._once()
            if status == 0:
                return
            if self._step() > step:
                failures, step = 0, self._step()
            failures += 1
            failure = self.failure(status)
            if failures > RESTARTS or not self._worth_another(status):
                raise RunFailed(failure)
            self.log(f"the learner ended after step {step} ({failure.message}); starting it anew")
            await asyncio.sleep(PAUSE_S * failures)

    async def _once(self) -> int:
        """Run the process once and return its exit status, negative for a signal."""
        self.run_dir.error.unlink(missing_ok=True)
        self.run_dir.turn_wanted.unlink(missing_ok=True)  # left by an earlier process
        process = await spawn(self.command(), self.variables())
        self.pid = process.pid
        self.children.record(process.pid, what="learner", run_id=self.run_id)
        reading = asyncio.create_task(self._read(process))
        watching = asyncio.create_task(self._watch(process.pid))
        try:
            status = await process.wait()
            await asyncio.wait([reading], timeout=2.0)
            return status
        finally:
            self.pid = None
            reading.cancel()
            watching.cancel()
            await asyncio.shield(asyncio.to_thread(self.children.end, process.pid))
            self.run_dir.turn_wanted.unlink(missing_ok=True)  # lets the engine continue

    def command(self) -> list[str]:
        """Return the command: the launcher, one process, or one for each GPU."""
        if self.launcher:
            module = ["-m", *self.launcher]
        elif len(self.gpus) > 1:
            module = ["-m", "workers.training.learner.elastic", str(len(self.gpus))]
        else:
            module = ["-m", "workers.training.learner"]
        return [sys.executable, *module, str(self.run_dir.root)]

    def variables(self) -> dict[str, str]:
        """Return the process's environment.

        The operator may configure the allocator differently, as not every driver can map memory.
        """
        if self.launcher:
            return {**self.surroundings}
        passed = {name: os.environ[name] for name in (*PASSED, *ALLOCATOR) if name in os.environ}
        return ALLOCATOR | passed | QUIET | visible_devices(self.gpus) | {"HOME": str(self.home)}

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        async for line in lines_of(process, LINE_CHARS):
            self._lines.append(line)
            self.log(f"learner: {line}")

    async def _watch(self, pid: int) -> None:
        """End a process whose heartbeat has stopped or never began."""
        began = time.time()
        while True:
            await asyncio.sleep(min(5.0, self.stall_s / 4))
            beat = last_beat(self.run_dir)
            alive = beat > began  # otherwise the file is an earlier process's
            silent = time.time() - max(began, beat)
            if silent > (self.stall_s if alive else LOADING_S):
                phase = str(read_json(self.run_dir, "state").get("phase")) if alive else "starting"
                self.log(f"the learner has said nothing for {silent:.0f} s (it was {phase}): ending it")
                await asyncio.to_thread(self.children.end, pid)

    def _step(self) -> int:
        step = read_json(self.run_dir, "state").get("step", 0)
        return step if isinstance(step, int) else 0

    def _worth_another(self, status: int) -> bool:
        if status not in KINDS:
            return True  # killed, or something unforeseen
        return KINDS[status][0].restart_helps or bool(read_json(self.run_dir, "error").get("restart_helps"))

    def failure(self, status: int) -> Failure:
        """Return the failure that an exit status means, for users."""
        said = read_json(self.run_dir, "error")
        if status in KINDS:
            kind, blame = KINDS[status]
            message = str(said.get("message") or f"The learner ended: {kind.__doc__}")
            hint = str(said.get("hint") or HINTS.get(kind.code, ""))
            return Failure(kind=blame, code=f"learner_{kind.code}", message=message[:2000], hint=hint)
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        tail = "\n".join(list(self._lines)[-15:])
        if says_disk_full(tail):
            return DISK_FULL
        return Failure(
            kind=FailureKind.INFRASTRUCTURE,
            code="learner_died",
            message=f"The learner {how}. Its last lines:\n{tail}"[:3500],
            hint="Signal 9 is often the host's memory: set a smaller trainer.token_budget. The run can be resumed.",
        )


def read_json(run_dir: RunDir, name: str) -> dict[str, object]:
    """Read learner.state.json or learner.error.json; empty if there is none."""
    path = run_dir.state if name == "state" else run_dir.error
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def last_beat(run_dir: RunDir) -> float:
    """Return when the learner last wrote its state (wall clock); 0 if never."""
    try:
        return run_dir.state.stat().st_mtime
    except OSError:
        return 0.0
