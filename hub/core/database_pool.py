"""What /metrics says about a web process's pool of database connections (HUB_DATABASE_POOL), noted after each request.

A request that waits for the pool's timeout fails, so waits come first: they say that the pool is too small.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cache

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from prometheus_client import Counter, Gauge

from hub.core.metrics import REGISTRY

_STATES = {"pool_size": "open", "pool_available": "free", "requests_waiting": "waiting"}
_POOL = Gauge(
    "hub_database_pool",
    "Of all web processes: open connections of their pools, free ones, and requests that wait for one.",
    ["state"],
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
_COUNTED = {
    "requests_queued": Counter(
        "hub_database_pool_waits", "Times that a request waited for a connection of the pool.", registry=REGISTRY
    ),
    "requests_errors": Counter(
        "hub_database_pool_failures", "Times that a request got no connection in time.", registry=REGISTRY
    ),
}


class PoolNotes:
    """The last figures of this process's pool, from which the next ones are counted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen = dict.fromkeys(_COUNTED, 0)

    def note(self, stats: Mapping[str, int]) -> None:
        """Take the pool's own figures (psycopg_pool's `get_stats`)."""
        for name, state in _STATES.items():
            _POOL.labels(state).set(stats.get(name, 0))
        with self._lock:
            for name, counter in _COUNTED.items():
                now = stats.get(name, 0)
                counter.inc(max(0, now - self._seen[name]))
                self._seen[name] = now


_notes = PoolNotes()


@cache
def _database() -> BaseDatabaseWrapper:
    """Return a wrapper that only leads to the pool: those of `connections` belong to a thread or request each."""
    return connections.create_connection("default")


def note_pool() -> None:
    """Note this process's pool; without one, do nothing. Opens no connection."""
    pool = getattr(_database(), "pool", None)
    if pool is not None:
        _notes.note(pool.get_stats())
