"""A learner's life in a child process that is killed -9 at a chosen durable operation. Loaded once by a fork server."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from workers.training.learner.directory.config import LearnerConfig
from workers.training.learner.directory.run_dir import RunDir
from workers.training.learner.follow import Follower
from workers.training.learner.heartbeat import Heartbeat
from workers.training.learner.model import load_policy
from workers.training.learner.step import Learner
from workers.training.learner.world import World


class Countdown:
    """Kills this process before the operation number `at` (from 1); 0: never. Counts what it lets through."""

    def __init__(self, at: int) -> None:
        self.at, self.seen = at, 0

    def around(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        """The operation, counted."""

        def counted(*given: Any, **named: Any) -> Any:
            self.seen += 1
            if self.seen == self.at:
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(*given, **named)

        return counted


def live(folder: Path, settings: LearnerConfig, at: int, count: Any) -> None:
    """Follow the run in `folder`; every fsync and rename counts. A heartbeat, which follows the clock, has neither."""
    torch.set_num_threads(1)
    countdown = Countdown(at)
    os.fsync = countdown.around(os.fsync)
    Path.rename = countdown.around(Path.rename)  # type: ignore[method-assign]
    run = RunDir(folder)
    policy = load_policy(run.base, settings, torch.device("cpu"), dtype=torch.float32)
    Follower(run, settings, Learner(policy, settings, World()), Heartbeat(run)).follow()
    count.value = countdown.seen


def life(folder: Path, settings: LearnerConfig, *, at: int = 0) -> tuple[int | None, int]:
    """Exit status of the child, and how many durable operations it made (0 when it was killed)."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    count = context.Value("i", 0)
    child = context.Process(target=live, args=(folder, settings, at, count))
    child.start()
    child.join(120)
    status = child.exitcode
    if status is None:
        child.kill()
        child.join()
    return status, int(count.value)
