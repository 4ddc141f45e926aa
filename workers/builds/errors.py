"""Why a build fails. `BuildFailed` is the package's doing and makes the version invalid; it carries what people need.

Infrastructure (the index or the hub away) is workers.runs.errors.RunFailed: the run goes back to the queue.
"""

from __future__ import annotations

from envhub.protocol.runs import Failure, FailureKind

from workers.runs.errors import RunFailed


class BuildFailed(Exception):
    """The version cannot be used. `detail` is for the check (a traceback, a compiler's output)."""

    def __init__(self, code: str, message: str, *, hint: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.detail = detail
        self.failure = Failure(kind=FailureKind.ENVIRONMENT, code=code, message=message[:4000], hint=hint)


def index_away(message: str) -> RunFailed:
    """The operator's index cannot be reached: not the package's fault."""
    return RunFailed.because(
        FailureKind.INFRASTRUCTURE,
        "index_unreachable",
        message,
        "Check the worker's package index (WORKER_PACKAGE_INDEX_URL, or pip's and uv's own configuration).",
    )
