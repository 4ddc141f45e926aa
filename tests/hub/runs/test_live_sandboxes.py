"""The sandboxes inside of a run: what its worker says is shown to its members, and one can be ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from envhub.protocol.runs import RunState
from envhub.protocol.sandboxes.live import LiveReport, LiveSandbox

from hub.accounts.models import User
from hub.runs.errors import StaleAttempt
from hub.runs.live_sandboxes import note_sandboxes
from hub.runs.models import Run, RunSandboxes
from hub.runs.services import end_attempt
from hub.runs.services.finishing import RELEASED, requeue_run
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.runs import hold_run, make_run
from tests.hub.runs.conftest import Recorder

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("recorder")]


class Held:
    """A run of alice's in a worker's hands, and who asks about it."""

    def __init__(self, user: User | None = None, parent: Run | None = None) -> None:
        self.user = user or make_user("alice")
        self.run = make_run(owner=self.user.owner, parent=parent)
        self.worker = bearer(hold_run(self.run))
        self.alice = bearer(make_token(self.user))
        self.address = f"/api/v1/runs/{self.run.pk}/sandboxes"

    def told(self, *names: str, others: int = 0, **fields: Any) -> dict[str, Any]:
        now = timezone.now().isoformat()
        command = {"line": "ls", "began": now, "seconds": 0.1, "exit_code": 0, "output": "a\x00b\n"}
        items = [
            {"id": name, "image": "hub/base", "state": "running", "created_at": now, "last": [command], **fields}
            for name in names
        ]
        answer = Client().post(
            self.address, {"living": len(items) + others, "items": items}, "application/json", headers=self.worker
        )
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["end"]
        return found

    def shown(self) -> list[str]:
        return [item["id"] for item in Client().get(self.address, headers=self.alice).json()["items"]]


@pytest.fixture
def held() -> Held:
    return Held()


def test_what_the_worker_says_is_shown(held: Held) -> None:
    held.told("b", "a", rollout="example 3, rollout 0")
    answer = Client().get(held.address, headers=held.alice).json()
    assert (answer["living"], held.shown()) == (2, ["b", "a"])
    assert answer["items"][0]["last"][0]["output"] == "a\ufffdb\n"
    held.told()
    assert held.shown() == []


def test_the_page_shows_what_one_waits_for(held: Held, client: Client) -> None:
    held.told("a", state="pending", last=[], waits_for="room on the worker: it asks for 9 of 8 CPUs")
    client.force_login(held.user)
    page = client.get(f"/runs/{held.run.pk}/sandboxes").content.decode()
    assert "Waits for room on the worker: it asks for 9 of 8 CPUs." in page
    assert "It has not started yet." in page


def test_one_is_ended_by_its_worker_who_is_told_by_whom(held: Held) -> None:
    held.told("a", "b")
    assert Client().delete(f"{held.address}/a", headers=held.alice).status_code == 204
    assert Client().get(held.address, headers=held.alice).json()["ending"] == ["a"]
    assert held.told("a", "b") == {"a": "alice"}
    assert held.told("b") == {}
    assert Client().delete(f"{held.address}/a", headers=held.alice).status_code == 404


def test_an_end_is_asked_for_also_when_newer_ones_have_crowded_the_sandbox_out_of_the_report(held: Held) -> None:
    held.told("a", others=130)
    assert Client().delete(f"{held.address}/a", headers=held.alice).status_code == 204
    assert held.told("b", others=130) == {"a": "alice"}
    assert held.told("b") == {}


def test_those_of_a_runs_parts_are_shown_and_ended_with_its_own(held: Held) -> None:
    part = Held(held.user, held.run)
    held.told("a")
    part.told("b")
    assert sorted(held.shown()) == ["a", "b"]
    assert Client().delete(f"{held.address}/b", headers=held.alice).status_code == 204
    assert (held.told("a"), part.told("b")) == ({}, {"b": "alice"})


def test_runs_with_some_are_listed_for_their_owners_members_and_by_owner_and_worker(held: Held) -> None:
    held.told("a")
    assert held.run.worker is not None
    bob, admin, page = make_user("bob"), make_user("root-user", is_superuser=True), "/administration/sandboxes"

    def shown(user: User, path: str) -> bool:
        client = Client()
        client.force_login(user)
        return f"/runs/{held.run.pk}/sandboxes" in client.get(path).text

    assert [shown(user, "/sandboxes") for user in (held.user, bob)] == [True, False]
    assert [shown(admin, f"{page}?owner={name}") for name in ("alice", "bob")] == [True, False]
    assert [shown(admin, f"{page}?worker={name}") for name in (held.run.worker.name, "other")] == [True, False]


def test_strangers_see_and_end_nothing(held: Held) -> None:
    held.told("a")
    stranger = bearer(make_token(make_user("mallory")))
    assert Client().get(held.address, headers=stranger).status_code == 404
    assert Client().delete(f"{held.address}/a", headers=stranger).status_code == 404
    assert Client().post(held.address, {"living": 0}, "application/json", headers=stranger).status_code in (401, 403)


def test_they_are_gone_when_the_worker_holds_the_run_no_more(held: Held) -> None:
    held.told("a")
    held.run.refresh_from_db()
    end_attempt(run=held.run, to=RunState.SUCCEEDED, now=timezone.now())
    assert not RunSandboxes.objects.exists()


def test_a_run_that_is_given_back_has_none(held: Held) -> None:
    held.told("a")
    held.run.refresh_from_db()
    requeue_run(run=held.run, failure=RELEASED, now=timezone.now())
    assert not RunSandboxes.objects.exists()


def test_a_silent_worker_shows_nothing(held: Held) -> None:
    held.told("a")
    RunSandboxes.objects.update(told_at=timezone.now() - timedelta(minutes=5))
    assert held.shown() == []


def test_a_report_beyond_its_bounds_is_refused(held: Held, recorder: Recorder) -> None:
    body = {"living": 1, "items": [{"id": "a", "image": "x" * 9999, "state": "running", "created_at": "2026-01-01"}]}
    assert Client().post(held.address, body, "application/json", headers=held.worker).status_code == 422


def test_a_report_that_comes_after_the_end_leaves_nothing(held: Held) -> None:
    late = Run.objects.get(pk=held.run.pk)  # as its request has seen it
    end_attempt(run=late, to=RunState.SUCCEEDED, now=timezone.now())
    inside = LiveSandbox(id="a", image="hub/base", state="running", created_at=timezone.now())
    with pytest.raises(StaleAttempt):
        note_sandboxes(run=late, report=LiveReport(living=1, items=(inside,)), now=timezone.now())
    assert not RunSandboxes.objects.exists()
