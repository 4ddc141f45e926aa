"""What happens where a package index does not answer: a run fails, a program in a sandbox is told to ask again."""

from __future__ import annotations

from envhub.protocol.runs import FailureKind

from workers.runs.errors import RunFailed

INDEX_AWAY = "index_unreachable"


class NotAnswering(LookupError):
    """A registry does not answer for a project of which nothing is kept: it may have it. Installers ask again."""


def index_away(message: str) -> RunFailed:
    """The operator's index cannot be reached: not the package's fault."""
    return RunFailed.because(
        FailureKind.INFRASTRUCTURE,
        INDEX_AWAY,
        message,
        "Check the worker's package index (WORKER_PACKAGE_INDEX_URL, or pip's and uv's own configuration).",
    )
