"""The failure of a run that needs a package index which does not answer."""

from __future__ import annotations

from envhub.protocol.runs import FailureKind

from workers.runs.errors import RunFailed

INDEX_AWAY = "index_unreachable"


def index_away(message: str) -> RunFailed:
    """The operator's index cannot be reached: not the package's fault."""
    return RunFailed.because(
        FailureKind.INFRASTRUCTURE,
        INDEX_AWAY,
        message,
        "Check the worker's package index (WORKER_PACKAGE_INDEX_URL, or pip's and uv's own configuration).",
    )
