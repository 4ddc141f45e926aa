"""How many workers of a pool would be useful: for scaling to zero and back without ending one that works."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from envhub.protocol.runs import RunKind, RunState, WorkersWanted

from hub.runs.models import Run, Worker, WorkerToken
from hub.runs.placing.demand import workers_for, workers_wanted
from tests.factories.accounts import bearer, make_user
from tests.factories.runs import hold_run, make_run, make_worker, make_worker_token

pytestmark = pytest.mark.django_db


@pytest.fixture
def token() -> WorkerToken:
    return make_worker_token()[1]


def wanted(token: WorkerToken, gpus: tuple[int, ...] = (), **slots: int) -> WorkersWanted:
    return workers_wanted(token, slots, gpus=gpus, now=timezone.now())


def pod(token: WorkerToken, number: int) -> Worker:
    worker = make_worker(token)
    worker.hostname = f"hub-eval-{number}"
    worker.save()
    return worker


def test_without_any_worker_waiting_runs_are_wanted_work(token: WorkerToken) -> None:
    assert wanted(token, eval=2).workers == 0
    for _ in range(3):
        make_run()
    demand = wanted(token, eval=2)
    assert (demand.workers, demand.kept, demand.queues[0].waiting) == (2, 0, 3)


@pytest.mark.parametrize(("seconds", "workers"), [(10, 1), (900, 0)])
def test_a_run_counts_whose_next_attempt_is_soon(token: WorkerToken, seconds: int, workers: int) -> None:
    make_run(not_before=timezone.now() + timedelta(seconds=seconds))
    assert wanted(token, eval=1).workers == workers


def test_the_queue_that_needs_the_most_workers_decides(token: WorkerToken) -> None:
    for _ in range(4):
        make_run()
    make_run(kind=RunKind.BUILD)
    assert wanted(token, eval=2, build=1).workers == 2


def test_only_the_token_s_queues_and_owners_count() -> None:
    alice = make_user("alice").owner
    make_run(owner=alice)
    make_run()
    assert wanted(make_worker_token(owners=(alice,))[1], eval=1).workers == 1
    assert wanted(make_worker_token(queues=("build",))[1], eval=1, build=1).workers == 0


def test_what_another_pool_holds_is_no_demand(token: WorkerToken) -> None:
    hold_run(make_run(), worker=make_worker())
    assert wanted(token, eval=1).workers == 0


def test_a_worker_with_runs_stays_and_so_do_those_with_lower_numbers(token: WorkerToken) -> None:
    for number in range(4):
        pod(token, number)
    hold_run(make_run(), worker=Worker.objects.get(hostname="hub-eval-2"))
    demand = wanted(token, eval=1)
    assert (demand.workers, demand.kept, demand.queues[0].workers) == (3, 3, 1)


def test_a_worker_that_fell_silent_keeps_nobody(token: WorkerToken) -> None:
    worker = pod(token, 5)
    hold_run(make_run(), worker=worker)
    Worker.objects.update(seen_at=timezone.now() - timedelta(minutes=5))
    demand = wanted(token, eval=1)
    assert (demand.workers, demand.kept) == (1, 0)


def test_runs_that_their_owners_limit_holds_back_want_nobody(
    token: WorkerToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update={"owner_running": {RunKind.EVAL: 2}}))
    alice = make_user("alice").owner
    for _ in range(5):
        make_run(owner=alice)
    assert wanted(token, eval=1).workers == 2
    hold_run(make_run(owner=alice), worker=make_worker())
    assert wanted(token, eval=1).workers == 1


def test_a_run_with_work_for_more_workers_wants_them(token: WorkerToken, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(parts_wanted=5)
    hold_run(run, worker=pod(token, 0))
    hold_run(make_run(owner=run.owner, parent=run), worker=pod(token, 1))
    assert wanted(token, eval=1).workers == 6  # both, and four parts that are missing
    assert wanted(make_worker_token()[1], eval=1).workers == 0  # it is another pool's
    limits = {"owner_running": {RunKind.EVAL: 3}}
    monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update=limits))
    assert wanted(token, eval=1).workers == 3


def test_gpu_runs_count_by_the_gpus_that_they_need(token: WorkerToken) -> None:
    for gpus in (4, 4, 8, 1):
        make_run(kind=RunKind.TRAIN, queue="gpu", gpus=gpus, gpu_memory_mb=40_000)
    assert wanted(token, gpus=(80_000,) * 8, gpu=8).workers == 3


def test_what_no_worker_of_the_pool_could_ever_have_wants_nobody(token: WorkerToken) -> None:
    make_run(kind=RunKind.TRAIN, queue="gpu", gpus=2)
    make_run(kind=RunKind.TRAIN, queue="gpu", gpus=1, gpu_memory_mb=100_000)
    assert wanted(token, gpus=(80_000,), gpu=1).workers == 0
    assert wanted(token, gpus=(0,), gpu=1).workers == 1  # its memory is not told


@pytest.mark.parametrize(
    ("needed", "slots", "gpus", "workers"),
    [([0] * 5, 2, 0, 3), ([5, 5, 5], 8, 8, 3), ([6, 2, 0], 2, 8, 2), ([1] * 5, 1, 8, 5), ([9], 1, 8, 1), ([], 1, 8, 0)],
)
def test_runs_are_packed_on_as_few_workers_as_hold_them(needed: list[int], slots: int, gpus: int, workers: int) -> None:
    assert workers_for(needed, slots, gpus) == workers


def test_an_answer_costs_the_same_whatever_waits(token: WorkerToken) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            wanted(token, eval=1)
        return len(seen)

    alice = make_user("alice").owner
    make_run(owner=alice)
    before = queries()
    for _ in range(5):
        make_run(owner=alice)
    assert queries() == before


@pytest.mark.parametrize("seed", range(3))
def test_a_pool_that_follows_the_answers_never_ends_a_worker_with_runs_and_goes_to_zero(
    token: WorkerToken, seed: int
) -> None:
    """A StatefulSet of at most five pods with one slot each, under runs that come and end at random."""
    random, alice, pods = Random(seed), make_user("alice").owner, [pod(token, number) for number in range(5)]
    Worker.objects.update(seen_at=timezone.now() - timedelta(hours=1))
    size, largest, held = 0, 0, {}
    for step in range(60):
        for number in range(size):
            if number not in held and step < 40 and (run := Run.objects.filter(state=RunState.QUEUED).first()):
                hold_run(run, worker=pods[number])
                held[number] = run
        for number in [number for number in held if random.random() < 0.3]:
            Run.objects.filter(pk=held.pop(number).pk).update(state=RunState.SUCCEEDED)
        if step < 30 and random.random() < 0.7:
            make_run(owner=alice)
        if step == 40:
            Run.objects.filter(state=RunState.QUEUED).update(state=RunState.CANCELLED)
        size = min(5, wanted(token, eval=1).workers)
        assert all(number < size for number in held)
        largest = max(largest, size)
        online = [worker.pk for worker in pods[:size]]
        Worker.objects.filter(pk__in=online).update(seen_at=timezone.now())
        Worker.objects.exclude(pk__in=online).update(seen_at=timezone.now() - timedelta(hours=1))
    assert (size, largest >= 2) == (0, True)


def test_a_pool_asks_with_its_own_token(client: Client) -> None:
    secret, _ = make_worker_token()
    make_run()

    def ask(query: str) -> Any:
        return client.get(f"/api/v1/workers/demand?{query}", headers=bearer(secret))

    assert ask("slots=eval:1,build:2&gpus=1&gpu_memory_mb=80000").json() == {
        "workers": 1,
        "kept": 0,
        "queues": [
            {"queue": "build", "waiting": 0, "held": 0, "workers": 0},
            {"queue": "eval", "waiting": 1, "held": 0, "workers": 1},
        ],
    }
    for wrong in ("", "slots=", "slots=eval", "slots=eval:0", "slots=eval:many", "slots=eval:1&gpus=-1"):
        assert ask(wrong).status_code == 422
