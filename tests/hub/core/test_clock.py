"""Hub processes agree on the database's time, whatever their hosts' clocks say."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.utils import timezone

from hub.core import clock

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
true_now = timezone.now


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """This host's clock is an hour ahead, as it was when the process began."""
    monkeypatch.setattr(clock, "_last", None)
    monkeypatch.setattr(timezone, "now", lambda: true_now() + HOUR)


def is_close(moment: datetime) -> bool:
    return abs(moment - true_now()) < timedelta(minutes=1)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has its host's clock")
@pytest.mark.usefixtures("wrong")
def test_a_host_that_is_an_hour_ahead_has_the_databases_time() -> None:
    assert is_close(clock.now())


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has its host's clock")
def test_a_clock_that_jumps_is_noticed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock.now()
    true_time = time.time
    monkeypatch.setattr(timezone, "now", lambda: true_now() + HOUR)
    monkeypatch.setattr(time, "time", lambda: true_time() + HOUR.total_seconds())
    assert is_close(clock.now())
    monkeypatch.undo()
    assert is_close(clock.now())


def test_a_clock_that_is_right_is_taken_as_it_is() -> None:
    before = timezone.now()
    assert before <= clock.now() <= timezone.now()
