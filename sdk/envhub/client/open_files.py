"""How many files a process of the hub or of a worker may have open: a stream, or a rollout in flight, takes two."""

from __future__ import annotations

import resource

WANTED = 65_536  # not all that the system allows: some programs go through as many at their start


def allow_open_files() -> int:
    """Raise the soft limit, which most systems set to 1024, as far as is allowed; children inherit it. Gives it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft == resource.RLIM_INFINITY or soft >= allowed:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed
