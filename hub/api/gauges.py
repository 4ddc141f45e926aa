"""What /metrics reads from the database. Kept for seconds, and read by one scrape at a time, so that no number of
monitors loads the database.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain

from django.db import Error, connection, transaction
from django.utils import timezone
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from hub.backups.gauges import backup_gauges
from hub.inference.gauges import inference_gauges
from hub.runs.gauges import run_gauges
from hub.storage.gauges import storage_gauges

logger = logging.getLogger(__name__)
KEPT_S = 10.0
LONGEST_S = 5  # of one query on Postgres


class DatabaseGauges(Collector):
    """A collector with a short memory. Without the database it says only that."""

    def __init__(self, kept_s: float = KEPT_S) -> None:
        self._kept_s = kept_s
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._kept: list[Metric] = []

    def collect(self) -> Iterable[Metric]:
        """What was read last, or is read now."""
        with self._lock:
            if self._read_at is None or time.monotonic() - self._read_at >= self._kept_s:
                self._kept = self._read()
                self._read_at = time.monotonic()
            return self._kept

    def _read(self) -> list[Metric]:
        began = time.monotonic()
        try:
            with _bounded():
                known = (inference_gauges(), storage_gauges(), backup_gauges(), _connections())
                found = [*run_gauges(timezone.now()), *chain.from_iterable(known)]
        except Error as error:
            logger.warning("metrics cannot be read from the database: %s", error)
            return [_is_up(0)]
        text = "How long the queries behind these numbers took."
        took = GaugeMetricFamily("hub_database_read_seconds", text, value=time.monotonic() - began)
        return [_is_up(1), *found, took]


@contextmanager
def _bounded() -> Iterator[None]:
    """No query takes longer than LONGEST_S on Postgres. SQLite gets no transaction: it would lock."""
    if connection.vendor != "postgresql":
        yield
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL statement_timeout = '{LONGEST_S}s'")
        yield


def _is_up(value: int) -> Metric:
    return GaugeMetricFamily("hub_database_up", "1 when the database answers this page.", value=value)


def _connections() -> Iterator[Metric]:
    """Of all that use the database; SQLite has none."""
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(state, 'other'), count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() GROUP BY 1"
        )
        rows = cursor.fetchall()
        cursor.execute("SELECT current_setting('max_connections')::int")
        most = cursor.fetchone()[0]
    family = GaugeMetricFamily("hub_database_connections", "Connections to the database.", labels=["state"])
    for state, count in rows:
        family.add_metric([state], count)
    yield family
    yield GaugeMetricFamily("hub_database_connections_max", "That its server allows, over all databases.", value=most)
