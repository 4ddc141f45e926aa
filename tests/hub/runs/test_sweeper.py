"""The sweeper: one at a time, patient after a start."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from hub.runs.models import Run
from hub.runs.sweep_lock import RowLock, sweep_lock
from hub.runs.sweeper import Sweeper
from tests.factories.runs import hold_run, make_run

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("recorder")]
LEASE = timedelta(seconds=30)


def test_leases_are_left_alone_for_one_lease_after_the_start() -> None:
    hold_run(make_run())
    sweeper, now = Sweeper(RowLock()), timezone.now() + timedelta(minutes=2)
    assert sweeper.sweep(now) == 0
    assert sweeper.sweep(now + LEASE) == 1
    assert Run.objects.get().state == "queued"


def test_of_two_sweepers_one_sweeps() -> None:
    hold_run(make_run())
    first, second, now = Sweeper(RowLock()), Sweeper(RowLock()), timezone.now() + timedelta(minutes=2)
    first.sweep(now)
    second.sweep(now)
    first.sweep(now + timedelta(seconds=20))
    assert second.sweep(now + LEASE) == 0
    assert first.sweep(now + LEASE) == 1


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


@pytest.mark.skipif(connection.vendor != "postgresql", reason="advisory locks are Postgres's")
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
