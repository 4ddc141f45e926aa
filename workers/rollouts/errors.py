"""What can go wrong with a runner, as the worker sees it.

RunnerError
|-- RunnerFatal   the environment cannot be used; carries the runner's typed Failure
`-- RunnerGone    the process ended, hung or spoke nonsense: start another, its rollouts may be tried again
"""

from __future__ import annotations

from envhub.protocol.runs import Failure


class RunnerError(Exception):
    """Base of all."""


class RunnerFatal(RunnerError):
    """The runner says that the environment cannot be used."""

    def __init__(self, failure: Failure, traceback: str = "", secrets: tuple[str, ...] = ()) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.traceback = traceback
        self.secrets = secrets  # that it asked for and has not


class RunnerGone(RunnerError):
    """The runner is no more. `oom` when the box's memory limit ended it."""

    def __init__(self, reason: str, *, oom: bool = False) -> None:
        super().__init__(reason)
        self.oom = oom
