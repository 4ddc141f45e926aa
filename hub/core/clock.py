"""The time by which all hub processes agree: the database's. A host whose clock is wrong would give leases that have
run out already, or that nobody can end for an hour.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection
from django.utils import timezone

EVERY_S = 30.0  # between two looks at the database's clock
APART_S = 0.5  # what is closer is the same time: the answer's way takes a moment


@dataclass(frozen=True)
class _Look:
    wall: float
    steady: float
    behind: timedelta  # this host, compared with the database

    def is_good(self) -> bool:
        """Whether it is fresh, and this host's clock has not been set since."""
        passed = time.monotonic() - self.steady
        return passed < EVERY_S and abs(time.time() - self.wall - passed) < APART_S


_last: _Look | None = None


def now() -> datetime:
    """Now, as the database has it; on SQLite as this host has it. Raises what an unreachable database raises."""
    if connection.vendor != "postgresql":
        return timezone.now()
    global _last
    look = _last
    if look is None or not look.is_good():
        look = _last = _look()
    return timezone.now() + look.behind


def _look() -> _Look:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (there,) = cursor.fetchone()
    here = timezone.now()
    behind = there - here
    close = abs(behind) < timedelta(seconds=APART_S)
    return _Look(time.time(), time.monotonic(), timedelta() if close else behind)
