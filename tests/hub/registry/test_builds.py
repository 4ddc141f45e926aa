"""The life of a build: what the worker is given, what its report and its end make of the version."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client, TestCase
from django.utils import timezone
from envhub.protocol.runs import Failure, FailureKind, FinishRequest, RunState

from hub.accounts.models import User
from hub.core.errors import Conflict
from hub.registry.models import Environment, StoredWheel, Version
from hub.registry.services import rebuild_version
from hub.registry.wire import build_payload, lock_for_payload
from hub.runs.models import Run
from hub.runs.services import finish_run
from tests.factories.accounts import make_user
from tests.factories.registry import push_version
from tests.factories.runs import hold_run, make_worker, make_worker_token
from tests.factories.storage import make_blob
from tests.hub.registry.api_client import call

pytestmark = pytest.mark.django_db
BAD = Failure(kind=FailureKind.ENVIRONMENT, code="import_error", message="no module named x", hint="add it")
AWAY = Failure(kind=FailureKind.INFRASTRUCTURE, code="worker_lost", message="the worker is gone", hint="again")


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def wheel(name: str = "numpy", version: str = "2.0.0", **fields: Any) -> dict[str, Any]:
    blob = make_blob()
    filename = f"{name}-{version}-py3-none-any.whl"
    return {"name": name, "version": version, "filename": filename, "sha256": blob.pk, "size": blob.size, **fields}


def good_report(*wheels: dict[str, Any]) -> dict[str, Any]:
    lock = {"python": "3.11", "platform": "linux_x86_64", "verifiers": "0.1.14", "wheels": wheels or [wheel()]}
    checks = [{"name": "install", "passed": True, "summary": "ok"}]
    return {"generation": "legacy", "verifiers": "0.1.14", "lock": lock, "describe": {"n": 1}, "checks": checks}


def hold(version: Version, **kwargs: Any) -> tuple[Run, str]:
    run = Run.objects.get(pk=version.build_run_id)
    secret = hold_run(run, **kwargs)
    return Run.objects.get(pk=run.pk), secret


def report(version: Version, body: dict[str, Any], **kwargs: Any) -> tuple[Run, Any]:
    run, secret = hold(version, **kwargs)
    return run, call(secret, "post", f"runs/{run.pk}/build-report", body)


def finish(run: Run, failure: Failure | None = None) -> Version:
    state = RunState.FAILED if failure else RunState.SUCCEEDED
    Run.objects.filter(pk=run.pk).update(max_attempts=1)
    run.refresh_from_db()
    finish_run(run=run, request=FinishRequest(state=state, failure=failure), now=timezone.now())
    return Version.objects.get(build_run=run)


def test_the_payload_names_all_that_a_build_needs(alice: User) -> None:
    source = "import verifiers as vf\nTOOL = dict(command='uvx', args=['--from', 'mcp-fetch>=1', 'fetch'])\n"
    pyproject = "[tool.verifiers.eval]\nenv_args = {n = 3}\n"
    version = push_version(alice, source=source, pyproject=pyproject, requires=["numpy"])
    payload = build_payload(Run.objects.get(pk=version.build_run_id))
    assert (payload.owner, payload.name, payload.version, payload.module) == ("alice", "tiny-env", "0.1.0", "tiny_env")
    assert (payload.dependencies, payload.settings.env_args, payload.tool_programs) == (
        ("numpy",),
        {"n": 3},
        ("mcp-fetch>=1",),
    )
    assert payload.owner_index_url == "http://127.0.0.1:8000/index/alice/simple/"
    assert payload.wheel.url is not None
    assert payload.wheel.sha256 == version.wheel_id


def test_a_report_and_its_end_make_the_version_ready(alice: User) -> None:
    version = push_version(alice)
    run, answer = report(version, good_report())
    assert (answer.status_code, answer.json()["state"]) == (200, "building")
    built = finish(run)
    assert (built.state, built.describe, built.failure) == ("ready", {"n": 1}, None)
    assert call(None, "get", "environments/alice/tiny-env").json()["latest_state"] == "ready"


def test_a_lock_is_kept_without_urls_and_given_out_with_them(alice: User) -> None:
    run, _ = report(push_version(alice), good_report(wheel(url="https://elsewhere/x.whl")))
    built = finish(run)
    assert built.lock is not None
    assert built.lock["wheels"][0]["url"] is None
    assert "signature=" in str(lock_for_payload(built).wheels[0].url)


def test_a_failed_build_makes_the_version_invalid_with_its_reason(alice: User) -> None:
    body = {"failure": BAD.model_dump(mode="json"), "checks": [{"name": "load", "passed": False, "summary": "no"}]}
    run, _ = report(push_version(alice), body)
    finish(run, BAD)
    shown = call(None, "get", "environments/alice/tiny-env/versions/0.1.0").json()
    assert (shown["state"], shown["failure"]["code"], shown["checks"][0]["name"]) == ("invalid", "import_error", "load")


def test_a_build_that_says_nothing_is_invalid_with_a_hint(alice: User) -> None:
    run, _ = hold(push_version(alice))
    built = finish(run)
    assert built.failure is not None
    assert (built.state, built.failure["code"]) == ("invalid", "no_build_report")


def test_a_lost_rebuild_leaves_the_version_as_ready_as_it_was(alice: User) -> None:
    run, _ = report(push_version(alice), good_report())
    rebuild_version(version=finish(run), user=alice)
    version = Version.objects.get()
    assert version.state == "building"
    again, _ = hold(version)
    assert finish(again, AWAY).state == "ready"


def test_a_rebuild_that_finds_a_fault_makes_the_version_invalid(alice: User) -> None:
    run, _ = report(push_version(alice), good_report())
    rebuild_version(version=finish(run), user=alice)
    again, _ = report(Version.objects.get(), {"failure": BAD.model_dump(mode="json")})
    assert finish(again, BAD).state == "invalid"


def lost(user: User, **age: int) -> Version:
    """A version whose first build the worker's host cost it, so long after its push."""
    version = push_version(user)
    Version.objects.update(created_at=timezone.now() - timedelta(**age))
    run, _ = hold(version)
    Run.objects.filter(pk=run.pk).update(max_attempts=1)
    run.refresh_from_db()
    finish_run(run=run, request=FinishRequest(state=RunState.FAILED, failure=AWAY), now=timezone.now())
    return Version.objects.select_related("build_run").get()


@pytest.mark.parametrize(("age", "minutes"), [({"minutes": 1}, 15), ({"hours": 3}, 180), ({"days": 30}, 1440)])
def test_a_first_build_that_is_lost_is_tried_again_later(alice: User, age: dict[str, int], minutes: int) -> None:
    version = lost(alice, **age)
    assert version.build_run is not None
    assert version.build_run.not_before is not None
    assert version.failure is not None
    assert (version.state, version.failure["code"]) == ("building", "worker_lost")
    assert f"retry at {version.build_run.not_before:%Y-%m-%d %H:%M} UTC" in version.failure["hint"]
    assert round((version.build_run.not_before - timezone.now()) / timedelta(minutes=1)) == minutes


@pytest.mark.parametrize("page", ["", "/versions/0.1.0", "/evaluate"])
def test_the_pages_of_a_version_say_why_and_until_when_its_build_waits(alice: User, page: str) -> None:
    version, client = lost(alice), Client()
    client.force_login(alice)
    where = f"/environments/alice/{version.environment.name}"
    html = client.get(where + page).content.decode()
    assert "waits for another try of its build" in html
    assert "the worker is gone" in html
    assert "in 14 min" in html
    rebuild_version(version=version, user=alice)
    html = client.get(where + page).content.decode()
    assert "waits for another try" not in html
    assert "is being built" in html
    done = {"done": 3, "total": 7, "unit": "stages", "note": "load"}
    Run.objects.filter(pk=version.build_run_id).update(state="running", progress=done)
    assert "So far: 3 of 7 stages, now load." in client.get(where + page).content.decode()


def test_a_build_that_waits_for_its_time_is_started_by_hand(alice: User) -> None:
    version = lost(alice)
    run = rebuild_version(version=version, user=alice)
    run.refresh_from_db()
    assert (run.pk, run.not_before) == (version.build_run_id, None)
    with pytest.raises(Conflict, match="is already being built"):
        rebuild_version(version=version, user=alice)


def test_a_later_build_that_succeeds_forgets_why_the_first_did_not(alice: User) -> None:
    version = lost(alice)
    rebuild_version(version=version, user=alice)
    run, _ = report(Version.objects.get(), good_report())
    built = finish(run)
    assert (built.state, built.failure) == ("ready", None)


def test_the_wheels_of_a_lock_are_kept(alice: User) -> None:
    report(push_version(alice), good_report(wheel("numpy"), wheel("wget", "3.2", built_from_source=True)))
    kept = StoredWheel.objects.order_by("name").values_list("name", "version", "built_from_source", "shared")
    assert list(kept) == [("numpy", "2.0.0", False, True), ("wget", "3.2", True, True)]


def test_the_wheel_of_an_environment_is_not_shared(alice: User) -> None:
    version = push_version(alice, private=True)
    own = {"sha256": version.wheel_id, "size": version.wheel.size, "filename": version.wheel_filename}
    report(version, good_report({"name": "tiny-env", "version": "0.1.0", **own}))
    assert not StoredWheel.objects.exists()


def test_a_wheel_whose_environment_is_deleted_during_a_build_does_not_become_everybodys(alice: User) -> None:
    evil, needs_it = push_version(alice, "numpy", "99.0"), push_version(alice, requires=["numpy"])
    of_owner = {"sha256": evil.wheel_id, "size": evil.wheel.size, "filename": evil.wheel_filename}
    run, secret = hold(needs_it)
    assert call(alice, "delete", "environments/alice/numpy").status_code == 204
    body = good_report({"name": "numpy", "version": "99.0", **of_owner}, wheel("scipy"))
    assert call(secret, "post", f"runs/{run.pk}/build-report", body).status_code == 200
    assert list(StoredWheel.objects.filter(shared=True).values_list("name", flat=True)) == ["scipy"]


def test_a_wheel_from_the_owners_index_is_not_shared_even_when_the_hub_has_forgotten_who_brought_it(
    alice: User,
) -> None:
    report(push_version(alice), good_report(wheel(owned=True), wheel("scipy")))
    assert list(StoredWheel.objects.filter(shared=True).values_list("name", flat=True)) == ["scipy"]


def test_a_lock_whose_bytes_are_missing_is_refused(alice: User) -> None:
    missing = wheel() | {"sha256": "0" * 64}
    _, answer = report(push_version(alice), good_report(missing))
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "blob_missing")
    assert Version.objects.get().lock is None


def test_a_wheel_that_is_not_what_its_name_says_is_refused(alice: User) -> None:
    _, answer = report(push_version(alice), good_report(wheel() | {"name": "evil"}))
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "name_mismatch")


def test_a_report_with_a_stale_or_foreign_token_is_refused(alice: User) -> None:
    version = push_version(alice)
    run, old = hold(version)
    hold_run(run)
    assert call(old, "post", f"runs/{run.pk}/build-report", good_report()).json()["error"]["code"] == "stale_attempt"
    _, foreign = hold(push_version(make_user(), "other-env"))
    assert call(foreign, "post", f"runs/{run.pk}/build-report", good_report()).status_code == 404
    assert call(alice, "post", f"runs/{run.pk}/build-report", good_report()).status_code == 401


def test_what_a_hostile_package_describes_is_kept_harmless_and_bounded(alice: User) -> None:
    version = push_version(alice)
    _, answer = report(version, good_report() | {"describe": {"text\0": "a\0b"}})
    assert answer.status_code == 200
    assert Version.objects.get().describe == {"text": "ab"}


@pytest.mark.parametrize(("described", "status"), [("half a character: \ud800", 400), ("x" * (5 << 20), 422)])
def test_what_no_reader_could_take_is_refused(alice: User, described: str, status: int) -> None:
    _, answer = report(push_version(alice), good_report() | {"describe": {"text": described}})
    assert answer.status_code == status


def test_a_source_is_built_once_for_everybody(alice: User) -> None:
    _, secret = hold(push_version(alice))
    key = "a" * 64
    assert call(secret, "post", "wheels/lookup", {"keys": [key]}).json() == {"found": []}
    first = call(secret, "post", "wheels", {"key": key, **wheel("wget", "3.2")}).json()
    second = call(secret, "post", "wheels", {"key": key, **wheel("wget", "3.2")}).json()
    assert first["wheel"]["sha256"] == second["wheel"]["sha256"]
    found = call(secret, "post", "wheels/lookup", {"keys": [key, "b" * 64]}).json()["found"]
    assert [item["key"] for item in found] == [key]
    assert found[0]["wheel"]["built_from_source"] is True


def test_a_worker_of_some_owners_shares_nothing_with_the_others(alice: User) -> None:
    worker = make_worker(make_worker_token(owners=(alice.owner,))[1])
    version = push_version(alice)
    run, secret = hold(version, worker=worker)
    call(secret, "post", "wheels", {"key": "a" * 64, **wheel("wget", "3.2")})
    assert call(secret, "post", "wheels/lookup", {"keys": ["a" * 64]}).json() == {"found": []}
    call(secret, "post", f"runs/{run.pk}/build-report", good_report())
    assert StoredWheel.objects.get().shared is False


def test_other_runs_have_no_business_in_the_wheel_store(alice: User) -> None:
    run, secret = hold(push_version(alice))
    Run.objects.filter(pk=run.pk).update(kind="eval")
    assert call(secret, "post", "wheels", {"key": "a" * 64, **wheel("wget", "3.2")}).status_code == 404
    assert not StoredWheel.objects.exists()


def test_users_have_no_business_in_the_wheel_store(alice: User) -> None:
    assert call(alice, "post", "wheels/lookup", {"keys": []}).status_code == 401
    assert call(None, "post", "wheels", {}).status_code == 401


def test_a_lock_is_asked_for_before_the_build(alice: User) -> None:
    with pytest.raises(Conflict) as caught:
        lock_for_payload(push_version(alice))
    assert caught.value.code == "not_built"


def test_deleting_the_version_of_a_running_build_ends_it(alice: User) -> None:
    run, secret = hold(push_version(alice))
    with TestCase.captureOnCommitCallbacks(execute=True):
        assert call(alice, "delete", "environments/alice/tiny-env").status_code == 204
    assert call(secret, "post", f"runs/{run.pk}/build-report", good_report()).status_code == 404
    assert call(secret, "post", f"runs/{run.pk}/heartbeat", {}).json()["cancel"] is True
    assert not Environment.objects.exists()
