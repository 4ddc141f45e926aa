"""What can go wrong with a runner, as the worker sees it.

RunnerError
|-- RunnerFatal   the environment cannot be used; carries the runner's typed Failure
`-- RunnerGone    the process ended, hung or spoke nonsense: start another, its rollouts may be tried again
"""

from __future__ import annotations

from envhub.protocol.registry.needs import Need
from envhub.protocol.runs import Failure


class RunnerError(Exception):
    """Base of all."""


class RunnerFatal(RunnerError):
    """The runner says that the environment cannot be used."""

    def __init__(
        self, failure: Failure, traceback: str = "", needs: tuple[Need, ...] = (), *, certain: bool = True
    ) -> None:
        super().__init__(failure.message)
        self.certain = certain  # whether it would ask for them with every release of verifiers
        self.failure = failure
        self.traceback = traceback
        self.needs = needs  # what it asked for and has not


class RunnerGone(RunnerError):
    """The runner is no more. `oom` when the box's memory limit ended it.

    outside: a signal that nothing here sent ended it or its box (an operator, the host's memory):
    infrastructure, tried again. Environment code can kill itself like that too, so tries have a limit.
    """

    def __init__(self, reason: str, *, oom: bool = False, outside: bool = False) -> None:
        super().__init__(reason)
        self.oom = oom
        self.outside = outside
