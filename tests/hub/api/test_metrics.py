"""/metrics: for the holder of the token alone, and what it says of runs, workers and the database."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from envhub.protocol.models.inference import ServeAddress
from envhub.protocol.runs import BeatRequest, EngineCounts, RunKind, RunState
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import DjangoAssertNumQueries, DjangoCaptureOnCommitCallbacks

from hub.api import gauges as module
from hub.api import metrics as page
from hub.api.gauges import DatabaseGauges
from hub.inference.services import ensure_deployment, report_address
from hub.runs.models import Run, Worker
from hub.runs.services import expire_leases
from hub.runs.services.dispatching import receive_beat
from tests.factories.accounts import make_token, make_user
from tests.factories.evals import create_hosted, make_failure, make_record, store
from tests.factories.runs import hold_run, make_run, make_worker
from tests.factories.training_runs import create_trainable

pytestmark = pytest.mark.django_db
TOKEN = "a-monitor's-token-of-its-own"
Value = Callable[..., float]


@pytest.fixture
def page_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update={"metrics_token": TOKEN}))
    monkeypatch.setattr(page, "_gauges", DatabaseGauges(kept_s=0))


def text(client: Client) -> str:
    answer = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    return answer.content.decode()


def values(told: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(told)
    return {(sample.name, frozenset(sample.labels.items())): sample.value for one in families for sample in one.samples}


@pytest.fixture
def value(client: Client, page_is_on: None) -> Value:
    """What the page says of a name with these labels."""

    def find(name: str, **labels: str) -> float:
        return values(text(client)).get((name, frozenset(labels.items())), 0.0)

    return find


def test_there_is_no_such_page_unless_the_operator_has_set_a_token(client: Client) -> None:
    assert client.get("/metrics", headers={"Authorization": "Bearer "}).status_code == 404


@pytest.mark.usefixtures("page_is_on")
@pytest.mark.parametrize("shown", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ü"])
def test_without_the_token_nothing_is_told(client: Client, shown: str) -> None:
    answer = client.get("/metrics", headers={"Authorization": shown} if shown else {})
    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, 'Bearer realm="hub metrics"')
    assert b"hub_runs" not in answer.content


@pytest.mark.usefixtures("page_is_on")
def test_an_administrators_token_is_not_the_monitors(client: Client) -> None:
    secret = make_token(make_user(is_superuser=True))
    assert client.get("/metrics", headers={"Authorization": f"Bearer {secret}"}).status_code == 401


def test_active_runs_are_counted_by_kind_and_state_and_ended_ones_are_not(value: Value) -> None:
    worker = make_worker()
    make_run(), make_run(), make_run(state=RunState.SUCCEEDED)
    hold_run(make_run(), worker=worker)
    hold_run(make_run(kind=RunKind.BUILD), worker=worker, state=RunState.LEASED)
    assert value("hub_runs", kind="eval", state="queued") == 2
    assert value("hub_runs", kind="eval", state="running") == 1
    assert value("hub_runs", kind="build", state="leased") == 1
    assert value("hub_runs", kind="eval", state="succeeded") == 0


def test_waiting_runs_are_told_by_what_they_wait_for(value: Value) -> None:
    make_worker(queues=("eval",))
    make_run(), make_run(kind=RunKind.BUILD)
    make_run(attempt=1, not_before=timezone.now() + timedelta(minutes=1))
    make_run(kind=RunKind.TRAIN, queue="gpu", gpus=8)
    found = [
        value("hub_runs_waiting", kind=kind, reason=reason)
        for kind, reason in [("eval", "no_slot"), ("eval", "back_off"), ("build", "no_worker"), ("train", "no_worker")]
    ]
    assert found == [1, 1, 1, 1]


def test_the_oldest_waiting_run_is_one_that_no_worker_has_had_yet(value: Value) -> None:
    old, again = make_run(), make_run(attempt=1)
    Run.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(minutes=5))
    Run.objects.filter(pk=again.pk).update(created_at=timezone.now() - timedelta(days=1))
    assert value("hub_oldest_waiting_run_age_seconds", kind="eval") == pytest.approx(300, abs=60)
    assert value("hub_oldest_waiting_run_age_seconds", kind="build") == 0


def test_lost_leases_are_counted_and_those_that_no_sweeper_ends_are_shown(value: Value) -> None:
    hold_run(make_run())
    Run.objects.update(lease_expires_at=timezone.now() - timedelta(minutes=5))
    assert value("hub_leases_overdue") == 1
    assert value("hub_leases_lost_total", kind="eval") == 0
    expire_leases(timezone.now())
    assert value("hub_leases_overdue") == 0
    assert value("hub_leases_lost_total", kind="eval") == 1


def test_workers_their_slots_and_their_gpus(value: Value) -> None:
    gone, there = make_worker(now=timezone.now() - timedelta(hours=1)), make_worker()
    gpu = {"uuid": "GPU-1", "name": "one", "memory_mb": 80_000, "free_mb": 80_000}
    facts = {"gpus": [gpu | {"index": index} for index in range(4)]}
    Worker.objects.filter(pk__in=(gone.pk, there.pk)).update(facts=facts)
    hold_run(make_run(kind=RunKind.TRAIN, gpus=3), worker=there)
    assert [value("hub_workers_online"), value("hub_worker_slots", queue="eval")] == [1, 1]
    assert [value("hub_gpus"), value("hub_gpus_used")] == [4, 3]


def test_engines_are_told_as_workers_and_training_runs_reported_them(value: Value) -> None:
    gone, there = make_worker(now=timezone.now() - timedelta(hours=1)), make_worker()
    beat = BeatRequest(room={"eval": 1}, engines=EngineCounts(starting=1, serving=2, idle=3))
    receive_beat(worker=there, beat=beat, now=timezone.now())
    Worker.objects.filter(pk=gone.pk).update(engines={"serving": 50})
    for engines in ({"serving": 2, "behind": 1}, {"starting": 1, "serving": 3, "behind": 4}, None):
        hold_run(run := make_run(kind=RunKind.TRAIN), worker=there)
        progress = {"done": 1, "total": 2, "unit": "steps", "engines": engines}
        Run.objects.filter(pk=run.pk).update(progress=progress)
    shared = [value("hub_engines", use="shared", state=state) for state in ("starting", "serving", "idle")]
    training = [value("hub_engines", use="training", state=state) for state in ("starting", "serving", "idle")]
    assert (shared, training) == ([1, 2, 3], [1, 5, 0])
    assert value("hub_training_weights_behind") == 4
    assert [value("hub_worker_slots_free", queue=queue) for queue in ("eval", "build")] == [1, 0]


def test_deployments_are_told_while_a_worker_holds_them(value: Value) -> None:
    user = make_user()
    deployment = ensure_deployment(model=create_trainable(user.owner, "sort"), user=user)
    run = Run.objects.get(pk=deployment.run_id)
    assert value("hub_deployments", state="starting") == 0
    hold_run(run)
    assert value("hub_deployments", state="starting") == 1
    report_address(run=run, address=ServeAddress(base_url="http://127.0.0.1:9/v1", secret="s" * 32))
    assert [value("hub_deployments", state=state) for state in ("starting", "loaded")] == [0, 1]


def test_rollouts_are_counted_once_they_are_committed(
    value: Value, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    names = [
        ("hub_segments_ingested_total", {}),
        *(("hub_rollouts_ingested_total", {"outcome": o}) for o in ("ok", "failed")),
    ]
    before = [value(name, kind="eval", **labels) for name, labels in names]
    tokens = value("hub_rollout_tokens_total", kind="eval", type="prompt")
    with django_capture_on_commit_callbacks(execute=True):
        store(create_hosted(), [make_record(0, 0), make_record(0, 1), make_failure(0, 2)])
    after = [value(name, kind="eval", **labels) for name, labels in names]
    assert [new - old for new, old in zip(after, before, strict=True)] == [1, 2, 1]
    assert value("hub_rollout_tokens_total", kind="eval", type="prompt") > tokens


def test_nothing_that_users_name_is_a_label(client: Client, page_is_on: None) -> None:
    user = make_user("confidential")
    run = make_run(owner=user.owner, subject="confidential/env@0.1.0")
    hold_run(make_run(owner=user.owner))
    told = text(client)
    assert "confidential" not in told
    assert str(run.pk) not in told


@pytest.fixture
def many_ended() -> None:
    """A table of runs that is worth an index, of which the database has statistics."""
    if connection.vendor == "postgresql":  # what other tests have undone lies in the indexes until it is cleaned up
        beside = connection.copy()
        with beside.cursor() as cursor:
            cursor.execute("VACUUM runs_run")
        beside.close()
    first = make_run()
    hold_run(make_run())
    ended = {"owner": first.owner, "created_by": first.created_by, "queue": "eval", "kind": "eval"}
    Run.objects.bulk_create(Run(**ended, state=RunState.SUCCEEDED.value) for _ in range(3000))
    if connection.vendor == "postgresql":  # nobody gives SQLite statistics
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")


@pytest.mark.usefixtures("many_ended")
def test_a_scrape_reads_no_table_of_runs_whatever_their_number() -> None:
    """Every query is explained: those over runs use an index, and what they read is what waits or is held."""
    with CaptureQueriesContext(connection) as asked:
        generate_latest(DatabaseGauges())
    over_runs = [query["sql"] for query in asked if '"runs_run"' in query["sql"]]
    assert 15 < len(over_runs) < 30
    for sql in over_runs:
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute(f"EXPLAIN (ANALYZE) {sql}")
                plan = "\n".join(row[0] for row in cursor.fetchall())
                assert "Seq Scan on runs_run" not in plan, plan
                read = re.findall(r"(?:actual time=\S+ rows=|Removed by Filter: )(\d+)", plan)
                assert max(map(int, read)) <= 100, plan  # of 3000; updated rows are seen until they are cleaned up
            else:
                cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
                plan = "\n".join(str(row[-1]) for row in cursor.fetchall())
                assert not re.search(r"SCAN runs_run(?! USING)", plan), plan


@pytest.mark.usefixtures("many_ended")
def test_the_age_of_a_queue_is_one_step_into_an_index() -> None:
    fresh = Run.objects.filter(state=RunState.QUEUED.value, kind="eval", attempt=0).order_by("created_at")
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:  # one row waits: sorting it is no dearer
            cursor.execute("SET LOCAL enable_sort = off")
    plan = fresh.values("created_at").explain()
    assert "run_waiting_by_kind" in plan
    assert "Sort" not in plan
    assert "TEMP B-TREE" not in plan


def test_monitors_that_scrape_more_often_read_what_the_last_one_has_read(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    gauges = DatabaseGauges()
    first = generate_latest(gauges)
    with django_assert_num_queries(0):
        assert generate_latest(gauges) == first


@pytest.mark.usefixtures("page_is_on")
def test_without_the_database_the_counters_are_told_still(value: Value, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(now: object) -> object:
        raise OperationalError("gone")

    assert value("hub_database_up") == 1
    monkeypatch.setattr(module, "run_gauges", away)
    assert value("hub_database_up") == 0
    assert value("hub_http_requests_in_progress") == 0
