"""A thousand workers at once: every run is given once, and nothing costs more for the others being there."""

from __future__ import annotations

import pytest
from django.db import connection
from django.utils import timezone
from envhub.protocol.runs import BeatRequest, RunState
from pytest_django import DjangoAssertNumQueries

from hub.runs.models import Run
from hub.runs.queries import get_worker
from hub.runs.services import receive_beat
from tests.fleet import Fleet
from tests.hub.runs.conftest import Recorder, Sent

RUNS = 120


@pytest.mark.django_db(transaction=True)
def test_a_thousand_workers_share_the_runs_and_each_is_given_once(recorder: Recorder) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("one database for many writers")
    fleet = Fleet(1000)
    fleet.join()
    fleet.submit(RUNS)
    left = Run.objects.exclude(state=RunState.SUCCEEDED.value)
    fleet.work(4, until=lambda: bool(fleet.errors) or not left.exists())
    assert not fleet.errors
    assert len(fleet.claims) == RUNS
    assert set(fleet.claims.values()) == {1}


@pytest.mark.django_db
@pytest.mark.parametrize("workers", [10, 1000])
def test_a_beat_that_brings_two_runs_of_many_owners_costs_the_same(
    sent: list[Sent], django_assert_num_queries: DjangoAssertNumQueries, workers: int
) -> None:
    fleet = Fleet(workers)
    fleet.join()
    fleet.submit(50)
    worker = get_worker(fleet.token.pk, fleet.rows[-1].pk)
    with django_assert_num_queries(14):
        assert receive_beat(worker=worker, beat=BeatRequest(room={"eval": 2}), now=timezone.now()).sent == 2
