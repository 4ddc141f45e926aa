"""How many files the worker's processes may have open: an evaluation's slot has two connections a rollout in flight."""

from __future__ import annotations

import resource

WANTED = 65_536  # not all that the system allows: some programs go through as many at their start


def allow_open_files() -> int:
    """Raise the soft limit, which most systems set to 1024, as far as is allowed; children inherit it. Gives it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = max(soft, min(hard, WANTED))
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed
