"""A full disk is this worker's trouble, which its operator ends: never the fault of a package or a model."""

from __future__ import annotations

import errno

from envhub.protocol.runs import Failure, FailureKind

WORDS = ("No space left on device", "Disk quota exceeded")  # as the C library has them, and all who print its errors
NUMBERS = {errno.ENOSPC, errno.EDQUOT}
DISK_FULL = Failure(
    kind=FailureKind.INFRASTRUCTURE,
    code="worker_disk_full",
    message="The worker's disk is full.",
    hint="Its operator makes room (a larger disk for WORKER_DATA, or a smaller WORKER_CACHE_MB, WORKER_VENVS_MB, "
    "WORKER_MODELS_MB, WORKER_TRAINING_MB); then resume the run, or start it anew (a build: `hub env rebuild`).",
)


def says_disk_full(output: str) -> bool:
    """Whether a program of the worker's own ended because of it. What a box prints is another matter."""
    return any(words in output for words in WORDS)


def is_disk_full(error: BaseException) -> bool:
    """Whether an error, or what it was raised from, is that of a full disk."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError) and found.errno in NUMBERS:
            return True
        found = found.__cause__
    return False
