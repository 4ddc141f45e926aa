"""How a run's body ends other than by returning.

RunEnded
|-- RunFailed     the run fails with a typed Failure; infrastructure failures are given back to the queue by the hub
`-- LeaseLost     the attempt is no longer ours: stop, write nothing
"""

from __future__ import annotations

from envhub.protocol.runs import Failure, FailureKind


class RunEnded(Exception):
    """Base of all."""


class RunFailed(RunEnded):
    """Raise it anywhere in a run's body."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure

    @classmethod
    def because(cls, kind: FailureKind, code: str, message: str, hint: str = "") -> RunFailed:
        """The same, from its parts."""
        return cls(Failure(kind=kind, code=code, message=message, hint=hint))


class LeaseLost(RunEnded):
    """The hub answered `stale_attempt`: another worker may have the run."""
