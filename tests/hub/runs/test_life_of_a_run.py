"""A worker takes a run through its life over HTTP, as workers do."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from envhub.protocol.runs import RunState

from hub.runs.models import Run, Worker
from tests.factories.accounts import bearer
from tests.factories.runs import hold_run, make_run, make_worker_token
from tests.hub.runs.conftest import Recorder

pytestmark = pytest.mark.django_db


class Caller:
    """Posts JSON with one token."""

    def __init__(self, client: Client, token: str) -> None:
        self.client, self.token = client, token

    def post(self, path: str, body: Any = None) -> Any:
        return self.client.post(
            f"/api/v1{path}", body or {}, content_type="application/json", headers=bearer(self.token)
        )

    def get(self, path: str) -> Any:
        return self.client.get(f"/api/v1{path}", headers=bearer(self.token))


def join(caller: Caller, *queues: str) -> str:
    body = {"name": "w", "hostname": "h", "queues": queues or ["eval"], "slots": {"eval": 1}, "sandbox": "bwrap"}
    reply = caller.post("/workers/join", body)
    assert reply.status_code == 200, reply.content
    return str(reply.json()["worker_id"])


@pytest.fixture
def worker(client: Client) -> Caller:
    return Caller(client, make_worker_token()[0])


def test_a_run_is_claimed_started_and_finished(client: Client, worker: Caller, recorder: Recorder) -> None:
    run = make_run()
    worker_id = join(worker)
    assert worker.post(f"/workers/{worker_id}/beat", {"room": {"eval": 1}}).json()["sent"] == 1
    claim = worker.post(f"/runs/{run.pk}/claim", {"worker_id": worker_id}).json()
    assert claim["payload"] == {"run": str(run.pk)}
    attempt = Caller(client, claim["token"])
    assert attempt.post(f"/runs/{run.pk}/start").json()["state"] == "running"
    beat = attempt.post(f"/runs/{run.pk}/heartbeat", {"progress": {"done": 1, "total": 2, "unit": "rollouts"}})
    assert beat.json() == {"cancel": False, "lease_seconds": 30.0}
    assert attempt.post(f"/runs/{run.pk}/finish", {"state": "succeeded"}).json()["state"] == "succeeded"
    assert recorder.moves == [("queued", "leased"), ("leased", "running"), ("running", "succeeded")]


def test_only_one_of_two_workers_gets_a_run(worker: Caller, recorder: Recorder) -> None:
    run = make_run()
    first, second = join(worker), join(worker, "eval", "build")
    assert worker.post(f"/runs/{run.pk}/claim", {"worker_id": first}).status_code == 200
    reply = worker.post(f"/runs/{run.pk}/claim", {"worker_id": second})
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "run_not_claimable")


def test_a_finish_whose_answer_was_lost_may_be_sent_again(client: Client, worker: Caller, recorder: Recorder) -> None:
    run = make_run()
    claim = worker.post(f"/runs/{run.pk}/claim", {"worker_id": join(worker)}).json()
    attempt = Caller(client, claim["token"])
    attempt.post(f"/runs/{run.pk}/start")
    assert [attempt.post(f"/runs/{run.pk}/finish", {"state": "succeeded"}).status_code for _ in "ab"] == [200, 200]
    assert attempt.post(f"/runs/{run.pk}/heartbeat").json()["error"]["code"] == "stale_attempt"


def test_a_failed_run_must_say_why(client: Client, worker: Caller, recorder: Recorder) -> None:
    run = make_run()
    claim = worker.post(f"/runs/{run.pk}/claim", {"worker_id": join(worker)}).json()
    reply = Caller(client, claim["token"]).post(f"/runs/{run.pk}/finish", {"state": "failed"})
    assert reply.status_code == 422
    assert Run.objects.get().state == RunState.LEASED


def test_joining_again_is_the_same_worker(worker: Caller) -> None:
    assert join(worker) == join(worker)
    assert Worker.objects.count() == 1


def test_characters_that_a_database_has_not_keep_no_run_from_its_end(client: Client, recorder: Recorder) -> None:
    run = make_run()
    attempt = Caller(client, hold_run(run))
    progress = {"done": 1, "total": 2, "unit": "rollouts", "note": "half\x00way"}
    assert attempt.post(f"/runs/{run.pk}/heartbeat", {"progress": progress}).status_code == 200
    failure = {"kind": "environment", "code": "broken", "message": "it said \x00", "hint": "\x00"}
    reply = attempt.post(f"/runs/{run.pk}/finish", {"state": "failed", "failure": failure})
    assert reply.json()["failure"]["message"] == "it said ", reply.content
    run.refresh_from_db()
    assert (run.state, run.progress and run.progress["note"]) == ("failed", "halfway")
