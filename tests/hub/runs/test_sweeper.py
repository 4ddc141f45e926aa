"""The sweeper: one at a time, patient after a start."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.contrib.sessions.models import Session
from django.db import OperationalError, connection
from django.utils import timezone

from hub.accounts.models import RateCount
from hub.runs import sweeper as module
from hub.runs.models import Run
from hub.runs.sweep_lock import AdvisoryLock, RowLock, sweep_lock
from hub.runs.sweeper import Sweeper
from tests.factories.runs import hold_run, make_run

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("recorder")]
LEASE = timedelta(seconds=30)
on_postgres = pytest.mark.skipif(connection.vendor != "postgresql", reason="advisory locks are Postgres's")


def test_leases_are_left_alone_for_one_lease_after_the_start() -> None:
    hold_run(make_run())
    sweeper, now = Sweeper(RowLock()), timezone.now() + timedelta(minutes=2)
    assert [sweeper.sweep(now + part * LEASE / 4) for part in range(5)] == [0, 0, 0, 0, 1]
    assert Run.objects.get().state == "queued"


@pytest.mark.parametrize("away", [timedelta(minutes=1), -timedelta(minutes=1)])
def test_a_sweeper_that_was_away_itself_leaves_them_alone_as_after_a_start(away: timedelta) -> None:
    """A database that hung, a machine that slept, a clock that jumped: no worker could renew its lease either."""
    hold_run(make_run())
    sweeper, began = Sweeper(RowLock()), timezone.now() - LEASE
    for part in range(4):
        sweeper.sweep(began + part * LEASE / 4)
    Run.objects.update(lease_expires_at=began + away - LEASE)
    again = began + LEASE + away
    assert [sweeper.sweep(again + part * LEASE / 4) for part in range(5)] == [0, 0, 0, 0, 1]


def test_of_two_sweepers_one_sweeps() -> None:
    hold_run(make_run())
    first, second, now = Sweeper(RowLock()), Sweeper(RowLock()), timezone.now() + timedelta(minutes=2)
    first.sweep(now)
    second.sweep(now)
    for seconds in (10, 20):
        first.sweep(now + timedelta(seconds=seconds))
    assert second.sweep(now + LEASE) == 0
    assert first.sweep(now + LEASE) == 1


def test_sessions_that_are_over_are_deleted() -> None:
    now = timezone.now()
    for name, seconds in (("over", -1), ("open", 1)):
        Session.objects.create(session_key=name, expire_date=now + timedelta(seconds=seconds))
    Sweeper(RowLock()).sweep(now)
    assert [session.session_key for session in Session.objects.all()] == ["open"]


def test_old_counts_of_rate_limits_are_forgotten_every_hour() -> None:
    sweeper, now = Sweeper(RowLock()), timezone.now()
    left = []
    for minutes in (0, 59, 60):
        RateCount.objects.create(key=f"{minutes}", ends_at=now)
        sweeper.sweep(now + timedelta(minutes=minutes))
        left.append(RateCount.objects.count())
    assert left == [0, 1, 0]


def test_another_takes_over_when_the_first_is_gone() -> None:
    now = timezone.now()
    first, second = RowLock(), RowLock()
    assert first.take(now)
    assert not second.take(now + timedelta(seconds=29))
    assert second.take(now + timedelta(seconds=31))
    assert not first.take(now + timedelta(seconds=32))


def test_a_lock_that_is_given_back_is_free_at_once() -> None:
    first, second, now = RowLock(), RowLock(), timezone.now()
    first.take(now)
    first.give_back()
    assert second.take(now)


@on_postgres
@pytest.mark.django_db(transaction=True)
def test_an_advisory_lock_is_held_by_one_session() -> None:
    lock, now = sweep_lock(), timezone.now()
    assert [lock.take(now), lock.take(now)] == [True, True]
    seen: list[bool] = []

    def elsewhere() -> None:
        seen.append(sweep_lock().take(now))
        connection.close()

    for _ in range(2):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        lock.give_back()
    assert seen == [False, True]


class WatchedLock(AdvisoryLock):
    """Notes whose session has the lock at each pass; does `then(pass)` afterwards."""

    def __init__(self, then: Callable[[int], None]) -> None:
        self.sessions: list[int] = []
        self._then = then

    def take(self, now: datetime) -> bool:
        taken = super().take(now)
        self.sessions.append(_session())
        self._then(len(self.sessions))
        return taken


def _session() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


@on_postgres
@pytest.mark.django_db(transaction=True)
def test_the_sweeper_keeps_the_session_that_holds_its_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY_S", 0.0)
    lock = WatchedLock(lambda number: sweeper.stop() if number == 3 else None)
    sweeper = Sweeper(lock)
    sweeper.run()
    assert len(lock.sessions) == 3
    assert len(set(lock.sessions)) == 1


@on_postgres
@pytest.mark.django_db(transaction=True)
def test_a_lost_session_is_replaced_and_leases_get_their_time_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def interfere(number: int) -> None:
        if number == 5:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        if number == 6:
            sweeper.stop()

    monkeypatch.setattr(module, "EVERY_S", 0.0)
    lock = WatchedLock(interfere)
    sweeper = Sweeper(lock)
    for part in (4, 3, 2, 1):
        sweeper.sweep(timezone.now() - part * LEASE / 3)
    hold_run(make_run())
    Run.objects.update(lease_expires_at=timezone.now())
    sweeper.run()
    assert lock.sessions[3] == lock.sessions[4] != lock.sessions[5]
    assert Run.objects.get().state == "running"


def test_each_pass_is_told_also_one_without_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(self: Sweeper, now: datetime) -> int:
        raise OperationalError("the database is away")

    told: list[int] = []
    sweeper = Sweeper(RowLock(), after_pass=lambda: (told.append(1), sweeper.stop()))
    monkeypatch.setattr(Sweeper, "sweep", away)
    sweeper.run()
    assert told == [1]
