"""Why a build fails. `BuildFailed` is the package's doing and makes the version invalid; it carries what people need.

`HostsNeeded` leaves the version waiting for its operator. Infrastructure (the index or the hub away) is
workers.runs.errors.RunFailed: the run goes back to the queue.
"""

from __future__ import annotations

from collections.abc import Sequence

from envhub.protocol.registry.needs import Need, NeedKind
from envhub.protocol.runs import Failure, FailureKind


class BuildFailed(Exception):
    """The version cannot be used. `detail` is for the check (a traceback, a compiler's output)."""

    def __init__(self, code: str, message: str, *, hint: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.detail = detail
        self.failure = Failure(kind=FailureKind.ENVIRONMENT, code=code, message=message[:4000], hint=hint)


class HostsNeeded(Exception):
    """Direct references lead to hosts that the operator does not let through: no fault of the package."""

    def __init__(self, hosts: Sequence[str], line: str) -> None:
        names = ", ".join(hosts)
        super().__init__(f"{line[:300]!r} is fetched from {names}, which this hub does not let through")
        self.needs = tuple(Need(kind=NeedKind.GIT_HOST, name=host) for host in hosts)


class HostAway(HostsNeeded):
    """A host is let through, but this worker does not reach it."""

    def __init__(self, host: str, message: str) -> None:
        super().__init__([host], "")
        self.args = (message,)
