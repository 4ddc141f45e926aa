"""What a disabled user's workers and queued runs get."""

from __future__ import annotations

import pytest
from django.test import Client

from hub.accounts.models import User
from hub.accounts.services import disable_user
from tests.factories.accounts import bearer, make_owner, make_user
from tests.factories.runs import hold_run, make_run, make_worker, make_worker_token

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> User:
    return make_user("ada")


def disable(user: User) -> None:
    disable_user(user=user, by=make_user(is_superuser=True))


def beat(secret: str, worker_id: object) -> int:
    body = {"room": {"eval": 1}}
    return (
        Client().post(f"/api/v1/workers/{worker_id}/beat", body, "application/json", headers=bearer(secret)).status_code
    )


def test_a_worker_that_serves_only_disabled_users_is_cut_off(ada: User) -> None:
    secret, token = make_worker_token(owners=(ada.owner,))
    worker = make_worker(token)
    run_token = hold_run(run := make_run(owner=ada.owner), worker=worker)
    assert beat(secret, worker.pk) == 200
    disable(ada)
    assert beat(secret, worker.pk) == 401
    reply = Client().post(f"/api/v1/runs/{run.pk}/heartbeat", {}, "application/json", headers=bearer(run_token))
    assert reply.status_code == 401


def test_a_worker_that_serves_others_too_goes_on(ada: User) -> None:
    for owners in ((), (ada.owner, make_owner()), (ada.owner, make_user().owner)):
        secret, token = make_worker_token(owners=owners)
        worker = make_worker(token)
        disable(ada)
        assert beat(secret, worker.pk) == 200


def test_a_queued_run_of_a_disabled_user_fails_with_the_reason(ada: User) -> None:
    secret, token = make_worker_token()
    worker, run = make_worker(token), make_run(owner=ada.owner)
    disable(ada)
    body = {"worker_id": str(worker.pk)}
    reply = Client().post(f"/api/v1/runs/{run.pk}/claim", body, "application/json", headers=bearer(secret))
    assert reply.status_code == 409
    run.refresh_from_db()
    assert (run.state, run.failure and run.failure["code"]) == ("failed", "user_disabled")
