"""A queued run says why it waits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from envhub.protocol.runs import BeatRequest
from pytest_django import DjangoAssertNumQueries

from hub.runs.models import Run
from hub.runs.placing.waiting import waiting_reasons
from hub.runs.services import receive_beat
from tests.factories.accounts import make_owner
from tests.factories.runs import make_run, make_worker, make_worker_token

pytestmark = pytest.mark.django_db


def reason(run: Run) -> str:
    return waiting_reasons([run], now=timezone.now())[run.pk]


def test_no_worker_serves_its_queue() -> None:
    make_worker(queues=("build",))
    assert reason(make_run()) == "no eval worker is online"


def test_a_worker_that_was_seen_long_ago_is_not_online() -> None:
    make_worker(now=timezone.now() - timedelta(minutes=5))
    assert reason(make_run()) == "no eval worker is online"


def test_a_worker_for_other_owners_does_not_count() -> None:
    make_worker(make_worker_token(owners=(make_owner(),))[1])
    assert reason(make_run()) == "no eval worker is online"


def test_it_counts_the_runs_ahead() -> None:
    make_worker()
    runs = [make_run() for _ in range(3)]
    assert [reason(run) for run in runs] == ["waiting for a free slot", "1 run ahead", "2 runs ahead"]


def test_what_a_worker_has_room_for_does_not_wait_for_anything() -> None:
    worker = make_worker()
    receive_beat(worker=worker, beat=BeatRequest(room={"eval": 2, "build": 0}), now=timezone.now())
    runs = [make_run() for _ in range(3)]
    assert [reason(run) for run in runs] == [
        "a worker is about to take it",
        "a worker is about to take it",
        "2 runs ahead",
    ]
    assert reason(make_run(queue="build")) == "waiting for a free slot"
    sent = make_run(sent_to=worker, sent_until=timezone.now() + timedelta(seconds=5))
    assert reason(sent) == "a worker is about to take it"


def test_runs_of_other_queues_are_not_ahead() -> None:
    make_worker()
    make_run(queue="build")
    assert reason(make_run()) == "waiting for a free slot"


@pytest.mark.parametrize(("seconds", "told"), [(11.5, "12 s"), (808, "14 min")])
def test_it_tells_how_long_the_back_off_lasts(seconds: float, told: str) -> None:
    now = timezone.now()
    run = make_run(attempt=1, not_before=now + timedelta(seconds=seconds))
    assert waiting_reasons([run], now=now)[run.pk] == f"waiting {told} before attempt 2"


def test_a_page_of_runs_costs_seven_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    make_worker(make_worker_token(owners=(make_owner(),))[1])
    make_worker()
    runs = [make_run() for _ in range(20)]
    with django_assert_num_queries(7):
        waiting_reasons(runs, now=timezone.now())


def test_a_workers_owners_are_looked_up_once_however_many_runs_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    owners, asked = type(make_worker().token.owners), []
    runs = [make_run() for _ in range(5)]
    every = owners.all

    def counted(manager: Any) -> Any:
        asked.append(manager)
        return every(manager)

    monkeypatch.setattr(owners, "all", counted)
    waiting_reasons(runs, now=timezone.now())
    assert len(asked) == 1


def test_workers_that_take_nothing_now_are_told() -> None:
    worker = make_worker()
    run = make_run()
    receive_beat(worker=worker, beat=BeatRequest(room={"build": 1}), now=timezone.now())
    assert "take no new runs" in waiting_reasons([run], now=timezone.now())[run.pk]
    make_worker()
    assert waiting_reasons([run], now=timezone.now())[run.pk] == "waiting for a free slot"
