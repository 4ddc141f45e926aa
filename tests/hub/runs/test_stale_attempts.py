"""Every write of a worker that was cut off is 409 stale_attempt, and changes nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from envhub.protocol.runs import RunState

from hub.runs.models import Run, RunLogPiece
from hub.runs.services import claim_run, expire_leases, revoke_worker_token
from tests.factories.accounts import bearer
from tests.factories.runs import hold_run, make_run, make_worker

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("recorder")]
WRITES = [
    ("start", {}),
    ("heartbeat", {}),
    ("log", {"offset": 0, "text": "hello"}),
    ("finish", {"state": "succeeded"}),
]


def post(client: Client, run: Run, verb: str, body: Any, token: str) -> Any:
    url = f"/api/v1/runs/{run.pk}/{verb}"
    return client.post(url, body, content_type="application/json", headers=bearer(token))


@pytest.mark.parametrize(("verb", "body"), WRITES)
def test_while_the_run_waits_for_its_next_attempt(client: Client, verb: str, body: Any) -> None:
    run = make_run()
    token = hold_run(run)
    expire_leases(timezone.now() + timedelta(minutes=1))
    pieces = RunLogPiece.objects.count()
    reply = post(client, run, verb, body, token)
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "stale_attempt")
    assert (Run.objects.get().state, RunLogPiece.objects.count()) == ("queued", pieces)


@pytest.mark.parametrize(("verb", "body"), WRITES)
def test_while_a_successor_has_the_run(client: Client, verb: str, body: Any) -> None:
    run = make_run()
    token = hold_run(run)
    now = timezone.now() + timedelta(minutes=1)
    expire_leases(now)
    claim_run(run_id=str(run.pk), worker=make_worker(), now=now + timedelta(minutes=1))
    assert post(client, run, verb, body, token).json()["error"]["code"] == "stale_attempt"
    assert (Run.objects.get().state, Run.objects.get().attempt) == ("leased", 2)


@pytest.mark.parametrize("state", [RunState.CANCELLED, RunState.FAILED])
@pytest.mark.parametrize(("verb", "body"), WRITES)
def test_after_the_run_has_ended_otherwise(client: Client, verb: str, body: Any, state: RunState) -> None:
    run = make_run()
    token = hold_run(run)
    Run.objects.update(state=state.value)
    assert post(client, run, verb, body, token).json()["error"]["code"] == "stale_attempt"


def test_an_upload_is_refused_too(client: Client) -> None:
    token = hold_run(make_run())
    expire_leases(timezone.now() + timedelta(minutes=1))
    reply = client.post("/api/v1/blobs", {"blobs": []}, content_type="application/json", headers=bearer(token))
    assert reply.json()["error"]["code"] == "stale_attempt"


def test_a_token_is_good_for_its_own_run_only(client: Client) -> None:
    token = hold_run(make_run())
    assert post(client, make_run(), "heartbeat", {}, token).status_code == 404


def test_a_forged_token_is_no_token(client: Client) -> None:
    run = make_run()
    token = hold_run(run)
    assert post(client, run, "heartbeat", {}, token[:-4] + "AAAA").status_code == 401


def test_revoking_the_workers_token_cuts_off_what_it_holds(client: Client) -> None:
    run, worker = make_run(), make_worker()
    token = hold_run(run, worker=worker)
    revoke_worker_token(token=worker.token, now=timezone.now())
    assert post(client, run, "heartbeat", {}, token).status_code == 401


def test_a_lease_that_ran_out_while_everything_slept_is_renewed(client: Client) -> None:
    run = make_run()
    token = hold_run(run)
    Run.objects.update(lease_expires_at=timezone.now() - timedelta(days=3))
    assert post(client, run, "heartbeat", {}, token).status_code == 200
    assert Run.objects.get().lease_expires_at > timezone.now()
