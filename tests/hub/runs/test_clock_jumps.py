"""A clock that was an hour ahead leaves nothing behind that waits for that hour."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from hub.runs.models import Run, Worker
from hub.runs.services import bring_back_times, claim_run, expire_leases, heartbeat_run, request_cancel
from hub.runs.sweep_lock import RowLock
from hub.runs.sweeper import Sweeper
from tests.factories.runs import hold_run, make_run, make_worker

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("recorder")]
HOUR, LEASE = timedelta(hours=1), timedelta(seconds=30)


def test_a_lease_from_then_ends_as_one_that_was_given_now() -> None:
    run, now = make_run(), timezone.now()
    hold_run(run)
    heartbeat_run(run=Run.objects.get(), progress=None, now=now + HOUR)
    assert bring_back_times(now) == 1
    assert expire_leases(now + LEASE - timedelta(seconds=1)) == 0
    assert expire_leases(now + LEASE + timedelta(seconds=1)) == 1


def test_a_run_that_was_sent_or_backs_off_is_given_out_now() -> None:
    now = timezone.now()
    make_run()
    Run.objects.update(sent_until=now + HOUR, not_before=now + HOUR, sends=1)
    assert bring_back_times(now) == 2
    claim = claim_run(run_id=str(Run.objects.get().pk), worker=make_worker(queues=("eval",), now=now), now=now)
    assert claim.attempt == 1


def test_a_worker_that_was_seen_then_is_not_online_for_an_hour() -> None:
    now = timezone.now()
    make_worker(queues=("eval",), now=now + HOUR)
    assert bring_back_times(now) == 1
    assert Worker.objects.get().seen_at == now


def test_a_cancel_of_then_is_as_old_as_now() -> None:
    run, now = make_run(), timezone.now()
    hold_run(run)
    request_cancel(run=Run.objects.get(), now=now + HOUR)
    bring_back_times(now)
    assert Run.objects.get().cancel_requested_at == now


def test_what_a_right_clock_has_written_stays() -> None:
    run, now = make_run(), timezone.now()
    hold_run(run)
    make_worker(queues=("eval",), now=now)
    assert bring_back_times(now) == 0


def test_the_sweeper_does_it_when_its_clock_goes_back() -> None:
    sweeper, now = Sweeper(RowLock()), timezone.now()
    sweeper.sweep(now + HOUR)
    hold_run(make_run())
    Run.objects.update(lease_expires_at=now + HOUR)
    moved = [sweeper.sweep(now + part * LEASE / 4) for part in range(6)]
    assert sum(moved) == 1


def test_a_sweepers_lock_from_then_is_free() -> None:
    now = timezone.now()
    assert RowLock().take(now + HOUR)
    assert RowLock().take(now)
