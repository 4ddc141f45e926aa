"""Runs that need GPUs: who is offered which, in what order, and why one waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from envhub.protocol.placing.gpus import Gpu, GpuUse
from envhub.protocol.runs import RunKind, RunState, WorkerFacts
from pytest_django import DjangoAssertNumQueries

from hub.runs.errors import NotClaimable
from hub.runs.gpu_use import continued, polyline
from hub.runs.models import Run, Worker
from hub.runs.placing.gpus import offered_runs
from hub.runs.placing.waiting import waiting_reasons
from hub.runs.queries import claimable_runs
from hub.runs.services import claim_run
from tests.factories.accounts import make_user
from tests.factories.runs import make_run, make_worker, make_worker_token
from tests.hub.runs.conftest import Sent

pytestmark = pytest.mark.django_db


def gpu_run(count: int = 1, memory_mb: int = 0, **fields: Any) -> Run:
    return make_run(kind=RunKind.TRAIN, queue="gpu", gpus=count, gpu_memory_mb=memory_mb, **fields)


def gpu_worker(*memories_mb: int) -> Worker:
    worker = make_worker(queues=("gpu",))
    gpus = tuple(
        Gpu(index=index, uuid=f"GPU-{index}", name="H", memory_mb=memory, free_mb=memory)
        for index, memory in enumerate(memories_mb)
    )
    Worker.objects.filter(pk=worker.pk).update(facts=WorkerFacts(gpus=gpus).model_dump(mode="json"))
    worker.refresh_from_db()
    return worker


def offered(free: list[int], busy: list[int]) -> list[int]:
    """Places in the line of what a worker is offered."""
    line = list(Run.objects.order_by("pk"))
    runs = claimable_runs(gpu_worker(), ["gpu"], now=timezone.now())
    return [line.index(run) for run in offered_runs(runs, "gpu", free=free, busy=busy)]


@pytest.mark.parametrize(
    ("needs", "free", "busy", "places"),
    [
        ([(1, 20), (1, 20)], [24, 24], [], [0, 1]),
        ([(1, 20), (1, 20)], [24], [24], [0]),  # two runs never share a GPU
        ([(2, 20), (1, 20)], [24], [24], []),  # the younger small one waits behind the older big one
        ([(1, 20), (2, 20), (1, 20)], [24], [24], [0]),
        ([(2, 20), (1, 20)], [24], [], [1]),  # what this worker could never hold keeps nobody waiting
        ([(1, 80), (1, 20)], [24], [], [1]),
        ([(1, 80), (1, 20)], [24], [80], []),
        ([(2, 20), (0, 0)], [24], [24], [1]),  # without a need for GPUs it passes
        ([(1, 0)], [], [], []),
        ([(0, 0)], [], [], [0]),
        ([(1, 20), (1, 70)], [24, 80], [], [0, 1]),  # the first takes the smaller one
    ],
)
def test_oldest_first_and_only_what_fits(
    needs: list[tuple[int, int]], free: list[int], busy: list[int], places: list[int]
) -> None:
    for count, memory in needs:
        gpu_run(count, memory)
    assert offered(free, busy) == places


def test_what_can_never_fit_here_does_not_fill_the_head_of_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hub.runs.placing.gpus.LOOKED_AT", 2)
    for _ in range(3):
        gpu_run(8)
    gpu_run(1)
    assert offered([24], []) == [3]


def test_a_claim_needs_gpus_that_hold_the_run() -> None:
    run, worker = gpu_run(2, 40_000), gpu_worker(81_559, 81_559)
    for gpus in ((), (81_000,), (81_000, 39_999)):
        with pytest.raises(NotClaimable):
            claim_run(run_id=str(run.pk), worker=worker, now=timezone.now(), gpus=gpus)
    run.refresh_from_db()
    assert (run.state, run.attempt) == ("queued", 0)


def test_a_worker_is_sent_what_its_gpus_hold(client: Client, sent: list[Sent]) -> None:
    secret, token = make_worker_token()
    worker = make_worker(token, queues=("gpu",))
    run = gpu_run(1, 20_000)

    def beat(free: list[int], busy: list[int] = ()) -> int:  # type: ignore[assignment]
        body = {"room": {"gpu": 2}, "free_gpus": free, "busy_gpus": busy}
        headers = {"Authorization": f"Bearer {secret}"}
        reply = client.post(f"/api/v1/workers/{worker.pk}/beat", body, "application/json", headers=headers)
        return reply.status_code if reply.status_code != 200 else reply.json()["sent"]

    assert [beat([]), beat([12_000], [24_000]), beat([12_000, 24_000])] == [0, 0, 1]
    assert [(message.run_id, message.headers) for message in sent] == [
        (str(run.pk), {"gpus": {"count": 1, "memory_mb": 20_000}})
    ]
    worker.refresh_from_db()
    assert (worker.free_gpus, worker.busy_gpus) == ([12_000], [24_000])  # as they will be
    gpu_run(1, 20_000)
    assert beat([12_000, 24_000]) == 1  # the GPU is for the one that is on its way
    assert beat([-1]) == 422


def test_a_beat_tells_how_much_gpus_are_used(client: Client) -> None:
    secret, token = make_worker_token()
    gpu = Gpu(index=0, uuid="GPU-a", name="X", memory_mb=24_000, free_mb=23_000)
    worker, headers = make_worker(token, queues=("gpu",), gpus=(gpu,)), {"Authorization": f"Bearer {secret}"}

    def beat(*percents: int | None) -> int:
        use = [{"index": index, "percent": one, "used_mb": 1000} for index, one in enumerate(percents)]
        body = {"room": {"gpu": 2}, "gpu_use": use}
        return client.post(f"/api/v1/workers/{worker.pk}/beat", body, "application/json", headers=headers).status_code

    assert [beat(0, 50, None), beat(101)] == [200, 422]
    worker.refresh_from_db()
    assert [percent for _, percent in worker.gpu_history] == [25]
    assert [one["percent"] for one in worker.gpu_use] == [0, 50, None]
    root = Client()
    root.force_login(make_user("eve", is_superuser=True))
    assert "25 % used" in root.get("/settings/workers").content.decode()
    client.post(f"/api/v1/workers/{worker.pk}/beat", {"room": {}}, "application/json", headers=headers)
    worker.refresh_from_db()
    assert len(worker.gpu_use) == 3  # an older worker says nothing
    assert beat() == 200  # the driver does not answer
    worker.refresh_from_db()
    assert (worker.gpu_use, len(worker.gpu_history)) == ([], 1)
    assert "% used" not in root.get("/settings/workers").content.decode()


def test_the_use_of_gpus_is_kept_for_each_minute_of_two_hours() -> None:
    now, history = datetime(2030, 1, 1, tzinfo=UTC), list[list[int]]()
    for second in range(0, 3 * 3600, 20):
        history = continued(history, [GpuUse(index=0, percent=second // 200)], now + timedelta(seconds=second))
    assert (len(history), history[1][0] - history[0][0]) == (120, 60)
    assert continued(history, [GpuUse(index=0)], now + timedelta(hours=9)) == history
    assert len(polyline(history, now + timedelta(hours=3)).split()) == 120
    assert polyline(history, now + timedelta(hours=9)) == ""


def reason(run: Run) -> str:
    return waiting_reasons([run], now=timezone.now())[run.pk]


def test_too_few_or_too_small_gpus_are_named() -> None:
    gpu_worker(24_564)
    run = gpu_run(2, 40_000)
    assert reason(run) == "needs 2 GPUs of >= 40 GB on one worker; the online workers have 1 x 24 GB"
    gpu_worker()
    gpu_worker(81_559)
    assert reason(run) == "needs 2 GPUs of >= 40 GB on one worker; the online workers have 1 x 24 GB, 1 x 80 GB"


def test_a_gpu_worker_without_gpus_is_named_too() -> None:
    gpu_worker()
    assert reason(gpu_run()) == "needs 1 GPU on one worker; the online workers have none"


def test_busy_gpus_are_told_with_the_runs_ahead() -> None:
    worker = gpu_worker(24_564, 24_564)
    gpu_run(1, state=RunState.RUNNING, worker=worker)
    first, second = gpu_run(2), gpu_run(1)
    assert reason(first) == "all GPUs are busy: next in line"
    assert reason(second) == "1 run ahead"
    gpu_run(1, state=RunState.LEASED, worker=worker)
    assert reason(second) == "all GPUs are busy: 1 run ahead"
    gpu_worker(24_564)
    assert reason(second) == "1 run ahead"


def test_a_run_that_needs_no_gpu_waits_for_a_slot_as_before() -> None:
    gpu_worker()
    assert reason(gpu_run(0)) == "waiting for a free slot"


def test_a_page_of_gpu_runs_costs_eight_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    worker = gpu_worker(24_564)
    gpu_run(1, state=RunState.RUNNING, worker=worker)
    runs = [gpu_run(1) for _ in range(20)]
    with django_assert_num_queries(8):
        waiting_reasons(runs, now=timezone.now())
