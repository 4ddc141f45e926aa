"""What /metrics says of a web process's pool of connections."""

from __future__ import annotations

import pytest
from django.db import connection
from prometheus_client import generate_latest
from psycopg_pool import ConnectionPool, PoolTimeout

from hub.core.database_pool import PoolNotes
from hub.core.metrics import REGISTRY

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no connections to share"),
]


def figures() -> dict[str, float]:
    told = generate_latest(REGISTRY).decode().splitlines()
    lines = [line.rsplit(" ", 1) for line in told if line.startswith("hub_database_pool") and "_created" not in line]
    return {name: float(value) for name, value in lines}


def test_connections_waits_and_failures_are_counted_once() -> None:
    notes, before = PoolNotes(), figures()
    waits, failures = "hub_database_pool_waits_total", "hub_database_pool_failures_total"
    kwargs = {name: value for name, value in connection.get_connection_params().items() if name != "cursor_factory"}
    with ConnectionPool(kwargs={**kwargs, "context": None}, min_size=1, max_size=1, timeout=60) as pool:
        pool.wait()
        with pool.connection():
            with pytest.raises(PoolTimeout), pool.connection(timeout=0.05):
                pass
            for _ in range(2):
                notes.note(pool.get_stats())
            told = figures()
        notes.note(pool.get_stats())
    assert [told[f'hub_database_pool{{state="{state}"}}'] for state in ("open", "free")] == [1, 0]
    assert (told[waits] - before[waits], told[failures] - before[failures]) == (1, 1)
    assert [figures()[f'hub_database_pool{{state="{state}"}}'] for state in ("free", "waiting")] == [1, 0]
