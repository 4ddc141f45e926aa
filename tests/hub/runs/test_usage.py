"""What owners used, by kind and day, and that nothing begins beyond their limits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone
from envhub.protocol.evals.rollouts import Usage
from envhub.protocol.placing.gpus import GpuNeed
from envhub.protocol.runs import ExtraGpus, Failure, FailureKind, FinishRequest, RunKind, RunState

from hub.accounts.models import Owner, User
from hub.core.errors import Conflict
from hub.runs.engines import EngineNeed
from hub.runs.errors import StaleAttempt
from hub.runs.models import OwnerUsage, Run
from hub.runs.services import claim_run, create_run, end_attempt, expire_leases, finish_run, heartbeat_run
from hub.runs.usage import usage_of
from hub.storage.models import StorageUse
from hub.storage.quota import quota
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.evals import create_hosted, create_pushed, make_record, start, store
from tests.factories.registry import create_ready_version
from tests.factories.runs import hold_run, make_run, make_worker

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def alice() -> User:
    return make_user("alice")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Changes settings of the hub."""

    def change(**values: object) -> None:
        monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update=values))

    return change


def busy(owner: Owner, since: timedelta, *, kind: RunKind = RunKind.TRAIN, gpus: int = 2) -> Run:
    run = make_run(owner=owner, kind=kind, gpus=gpus)
    hold_run(run)
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now() - since)
    run.refresh_from_db()
    return run


def gpu_hours(owner: Owner) -> float:
    return round(usage_of([owner], now=timezone.now())[0].gpu_hours, 2)


def test_the_time_of_workers_and_gpus_counts_while_a_run_goes_on_and_after_it(alice: User) -> None:
    run = busy(alice.owner, 3 * HOUR)
    assert gpu_hours(alice.owner) == 6
    end_attempt(run=run, to=RunState.SUCCEEDED, now=timezone.now())
    assert gpu_hours(alice.owner) == 6
    (row,) = usage_of([alice.owner], now=timezone.now())[0].kinds
    assert (row.kind, round(row.run_seconds / 3600, 2)) == (RunKind.TRAIN, 3)


def test_the_gpus_of_an_engine_count_for_the_run_that_uses_it_and_end_what_may_be_asked(alice: User, hub: Any) -> None:
    hub(owner_gpu_hours=10)
    run, now = busy(alice.owner, 3 * HOUR, kind=RunKind.SERVE, gpus=0), timezone.now()
    assert gpu_hours(alice.owner) == 0
    heartbeat_run(run=run, progress=None, now=now, engine_gpus=4)
    heartbeat_run(run=run, progress=None, now=now)  # of an older worker
    assert gpu_hours(alice.owner) == 12
    shown = Client().get(f"/api/v1/runs/{run.pk}", headers=bearer(make_token(alice))).json()
    assert (shown["gpus"], round(shown["gpu_seconds"] / 3600)) == (4, 12)
    end_attempt(run=run, to=RunState.SUCCEEDED, now=now)
    assert gpu_hours(alice.owner) == 12
    again = {"kind": RunKind.SERVE, "owner": alice.owner, "created_by": alice, "subject": "m", "subject_url": ""}
    with pytest.raises(Conflict, match="GPU hours"):
        create_run(**again, engine=EngineNeed("vllm", 0))
    create_run(**again)  # on a processor


@pytest.mark.usefixtures("recorder")
def test_the_gpus_of_extra_engines_count_as_long_as_each_was_there(alice: User) -> None:
    run, now = busy(alice.owner, 3 * HOUR, kind=RunKind.EVAL), timezone.now()
    for held, hours in ((4, 1), (8, 5), (0, 4)):  # the last one comes late
        heartbeat_run(run=run, progress=None, now=now, extra_gpus=ExtraGpus(held=held, seconds=3600 * hours))
    heartbeat_run(run=run, progress=None, now=now, extra_gpus=ExtraGpus(held=8, seconds=3600 * 5))
    assert gpu_hours(alice.owner) == 3 * 2 + 5
    shown = Client().get(f"/api/v1/runs/{run.pk}", headers=bearer(make_token(alice))).json()
    assert (shown["gpus"], round(shown["gpu_seconds"] / 3600)) == (10, 11)
    run.refresh_from_db()
    again = finish_run(run=run, request=FinishRequest(state=RunState.QUEUED, extra_gpu_seconds=3600 * 6), now=now)
    assert gpu_hours(alice.owner) == 3 * 2 + 6
    claim_run(run_id=str(again.pk), worker=make_worker(queues=(run.queue,)), now=timezone.now(), gpus=(80_000, 80_000))
    shown = Client().get(f"/api/v1/runs/{run.pk}", headers=bearer(make_token(alice))).json()
    assert (shown["gpus"], gpu_hours(alice.owner)) == (2, 3 * 2 + 6), "the next attempt begins without"


def test_processors_count_by_attempts_as_their_workers_tell_at_the_end(alice: User) -> None:
    run = busy(alice.owner, HOUR)
    lost = Failure(kind=FailureKind.INFRASTRUCTURE, code="c", message="m")
    again = finish_run(
        run=run, request=FinishRequest(state=RunState.FAILED, failure=lost, cpu_seconds=3600), now=timezone.now()
    )
    assert again.state == RunState.QUEUED
    hold_run(again)
    again.refresh_from_db()
    done = FinishRequest(state=RunState.SUCCEEDED, cpu_seconds=1800)
    for _ in range(2):  # said again it counts once
        again = finish_run(run=again, request=done, now=timezone.now())
    assert again.cpu_seconds == 5400
    assert usage_of([alice.owner], now=timezone.now())[0].cpu_hours == 1.5


def test_processors_of_a_killed_attempt_count_as_its_heartbeats_told(alice: User) -> None:
    run, later = busy(alice.owner, HOUR), timezone.now()
    for told in (1800, 3600, 3600, 2000):  # said again, and late
        heartbeat_run(run=run, progress=None, now=later, cpu_seconds=told)
    assert usage_of([alice.owner], now=later)[0].cpu_hours == 1
    Run.objects.filter(pk=run.pk).update(lease_expires_at=later - timedelta(minutes=1))
    expire_leases(timezone.now())
    with pytest.raises(StaleAttempt):
        heartbeat_run(run=run, progress=None, now=later, cpu_seconds=9000)
    run.refresh_from_db()
    hold_run(run, state=RunState.RUNNING)
    run.refresh_from_db()
    heartbeat_run(run=run, progress=None, now=later, cpu_seconds=1800)
    finish_run(run=run, request=FinishRequest(state=RunState.SUCCEEDED, cpu_seconds=3600), now=later)
    run.refresh_from_db()
    assert (run.cpu_seconds, usage_of([alice.owner], now=timezone.now())[0].cpu_hours) == (7200, 2)


def test_a_lost_attempt_counts_too_and_its_wait_does_not(alice: User) -> None:
    run = busy(alice.owner, HOUR)
    Run.objects.filter(pk=run.pk).update(lease_expires_at=timezone.now() - timedelta(minutes=1))
    expire_leases(timezone.now())
    run.refresh_from_db()
    assert (run.state, gpu_hours(alice.owner)) == ("queued", 2)
    end_attempt(run=run, to=RunState.CANCELLED, now=timezone.now())
    assert gpu_hours(alice.owner) == 2


def test_what_is_older_than_the_days_counts_no_more_and_others_have_their_own(alice: User) -> None:
    bob = make_user("bob").owner
    end_attempt(run=busy(bob, HOUR), to=RunState.SUCCEEDED, now=timezone.now())
    OwnerUsage.objects.create(
        owner=alice.owner, day=timezone.now().date() - timedelta(days=29), kind="train", gpu_seconds=36e2
    )
    OwnerUsage.objects.create(
        owner=alice.owner, day=timezone.now().date() - timedelta(days=30), kind="train", gpu_seconds=36e3
    )
    assert (gpu_hours(alice.owner), gpu_hours(bob)) == (1, 2)


def test_tokens_of_hosted_rollouts_count_once_with_their_judges(alice: User) -> None:
    evaluation = create_hosted(alice)
    start(evaluation)
    record = make_record(usage=Usage(prompt_tokens=100, completion_tokens=20), judge_usage=Usage(prompt_tokens=7))
    for _ in range(2):
        store(evaluation, [record])
    create_ready_version(alice, "pushed")
    pushed = create_pushed(alice, "alice/pushed")
    store(pushed, [record])
    (row,) = usage_of([alice.owner], now=timezone.now())[0].kinds
    assert (row.prompt_tokens, row.completion_tokens) == (107, 20)


def test_nothing_that_needs_a_gpu_begins_beyond_the_limit(alice: User, hub: Any) -> None:
    hub(owner_gpu_hours=5.0)
    busy(alice.owner, 3 * HOUR)
    with pytest.raises(Conflict, match=r"alice has used 6\.0 of 5 GPU hours of the last 30 days") as refused:
        queue(alice, RunKind.TRAIN, gpus=1)
    assert refused.value.code == "usage_limit"
    queue(alice, RunKind.BUILD)
    queue(make_user("bob"), RunKind.TRAIN, gpus=1)


def test_no_evaluation_begins_beyond_the_limit_of_tokens(alice: User, hub: Any) -> None:
    hub(owner_tokens=1000)
    OwnerUsage.objects.create(owner=alice.owner, day=timezone.now().date(), kind="serve", prompt_tokens=900)
    create_hosted(alice)
    OwnerUsage.objects.update(completion_tokens=100)
    with pytest.raises(Conflict, match=r"1,000 of 1,000 tokens"):
        create_hosted(alice)
    queue(alice, RunKind.BUILD)


def test_a_page_and_an_answer_show_it_to_members_alone(alice: User, hub: Any) -> None:
    hub(owner_gpu_hours=10.0)
    busy(alice.owner, 3 * HOUR)
    StorageUse.objects.update_or_create(pk=alice.owner.pk, defaults={"size": 2_500_000})
    shown = Client().get("/api/v1/usage", headers=bearer(make_token(alice))).json()["owners"]
    assert [(owner["owner"], round(owner["gpu_hours"], 1), owner["gpu_hours_limit"]) for owner in shown] == [
        ("alice", 6.0, 10.0)
    ]
    assert [(owner["stored_bytes"], owner["stored_limit"]) for owner in shown] == [(2_500_000, quota(alice.owner.pk))]
    client = Client()
    client.force_login(alice)
    page = client.get("/settings/usage").text
    assert ("of 10" in page, "2.5 MB" in page) == (True, True)
    client.force_login(make_user("bob"))
    assert "alice" not in client.get("/settings/usage").text


def queue(user: User, kind: RunKind, gpus: int = 0) -> Run:
    need = GpuNeed(count=gpus)
    return create_run(kind=kind, owner=user.owner, created_by=user, subject="x", subject_url="", gpus=need)
