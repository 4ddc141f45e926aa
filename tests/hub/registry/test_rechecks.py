"""Checks that are run again: by themselves when what they lack has come, and by people, while the version stays."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import TestCase
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from envhub.protocol.data import DataFile, DataRequest
from envhub.protocol.registry.files import FileKind, FileRequest
from envhub.protocol.registry.needs import Need, NeedKind
from envhub.protocol.runs import Failure, FinishRequest, RunState
from pytest_django import DjangoCaptureOnCommitCallbacks

from hub.accounts.models import User
from hub.core.needs import Arrival
from hub.data.files import add_file
from hub.data.services import add
from hub.registry.models import Version
from hub.registry.services import rebuild_version, recheck_version, recheck_waiting
from hub.registry.wire import build_payload
from hub.runs.models import Run
from hub.runs.services import finish_run, request_cancel
from hub.secrets.services import set_secret
from tests.factories.accounts import make_user
from tests.factories.catalog import create_endpoint
from tests.factories.registry import create_needing_version, create_ready_version, push_version
from tests.factories.runs import hold_run
from tests.factories.storage import make_blob
from tests.hub.registry.api_client import call
from tests.hub.registry.test_builds import BAD
from tests.hub.registry.test_needs import DATA, lacking

pytestmark = pytest.mark.django_db
GSM8K = Need(kind=NeedKind.DATA_SET, name="openai/gsm8k")
CAME = Arrival(NeedKind.DATA_SET, ("openai/gsm8k", "gsm8k"))
PATH = "environments/alice/tiny-env/versions/0.1.0"
PASSED = [{"name": "load", "passed": True, "summary": "ToolEnv"}]


@pytest.fixture
def alice() -> User:
    return make_user("alice")


@pytest.fixture
def waiting(alice: User) -> Version:
    """Ready, and lacking a data set; its build has ended."""
    version = create_needing_version(GSM8K, user=alice)
    Run.objects.update(state=RunState.SUCCEEDED.value)
    return version


def bring(user: User, repository: str = "openai/gsm8k", kind: str = "dataset") -> None:
    blob = make_blob()
    request = DataRequest(files=(DataFile(path="data.parquet", sha256=blob.pk, size=blob.size),))
    add(kind=kind, repository=repository, request=request, holder=user.owner.pk)


def hold(version: Version) -> tuple[Run, str]:
    """The version's checks in a worker's hands."""
    run = Run.objects.get(pk=Version.objects.get(pk=version.pk).check_run_id)
    return run, hold_run(run)


def say(run: Run, secret: str, **body: Any) -> Any:
    return call(secret, "post", f"runs/{run.pk}/build-report", body)


def end(run: Run, failure: Failure | None = None) -> Version:
    Run.objects.filter(pk=run.pk).update(max_attempts=1)
    run.refresh_from_db()
    state = RunState.FAILED if failure else RunState.SUCCEEDED
    finish_run(run=run, request=FinishRequest(state=state, failure=failure), now=timezone.now())
    return Version.objects.get()


@pytest.mark.parametrize("needed", ["openai/gsm8k", "gsm8k"])
def test_a_data_set_that_comes_checks_again_what_waits_for_it_and_nothing_else(
    alice: User, needed: str, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    version = create_needing_version(Need(kind=NeedKind.DATA_SET, name=needed), user=alice)
    create_needing_version(Need(kind=NeedKind.DATA_SET, name="other/data"), user=alice, name="other-env")
    create_needing_version(Need(kind=NeedKind.MODEL, name=needed), user=alice, name="third-env")
    Run.objects.update(state=RunState.SUCCEEDED.value)
    with django_capture_on_commit_callbacks(execute=True):
        bring(alice)
    run = Run.objects.get(state=RunState.QUEUED.value)
    version.refresh_from_db()
    assert (run.subject, run.pk, version.state) == ("alice/tiny-env@0.1.0 (checks)", version.check_run_id, "ready")


@pytest.mark.parametrize(
    ("kind", "name", "need"),
    [
        ("file", "https://h.test/words.txt", Need(kind=NeedKind.FILE, name="https://h.test/words.txt")),
        ("tiktoken", "cl100k_base", Need(kind=NeedKind.CORPUS, name="tiktoken:cl100k_base")),
    ],
)
def test_a_file_that_comes_checks_again_what_waits_for_it(
    alice: User,
    kind: FileKind,
    name: str,
    need: Need,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    version = create_needing_version(need, user=alice)
    Run.objects.update(state=RunState.SUCCEEDED.value)
    blob = make_blob()
    with django_capture_on_commit_callbacks(execute=True):
        add_file(request=FileRequest(kind=kind, name=name, sha256=blob.pk, size=blob.size), by=alice)
    version.refresh_from_db()
    assert Run.objects.get(state=RunState.QUEUED.value).pk == version.check_run_id


def test_checks_again_are_given_the_lock_that_is_there(waiting: Version) -> None:
    recheck_waiting(CAME)
    payload = build_payload(Run.objects.get(pk=Version.objects.get().check_run_id))
    assert payload.only_checks is True
    assert payload.previous is not None
    assert payload.previous.verifiers == "0.1.14"


def test_what_checks_find_replaces_what_they_found_before(waiting: Version) -> None:
    build = {"name": "resolve", "passed": True, "summary": "61 wheels"}
    Version.objects.update(checks=[build, *waiting.checks, {"name": "describe", "passed": False, "summary": "no"}])
    recheck_waiting(CAME)
    run, secret = hold(waiting)
    assert say(run, secret, generation="legacy", verifiers="0.1.14", checks=PASSED).status_code == 200
    version = end(run)
    assert [(check["name"], check["passed"]) for check in version.checks] == [("resolve", True), ("load", True)]
    assert (version.state, version.lock, version.needs.count()) == ("ready", waiting.lock, 0)


@pytest.mark.parametrize(("outcome", "taken"), [("failed", "0.1.12"), ("ok", "0.1.14")])
def test_checks_may_bring_another_lock_until_a_rollout_has_succeeded(
    waiting: Version, outcome: str, taken: str
) -> None:
    Version.objects.update(scripted_rollout={"outcome": outcome})
    recheck_waiting(CAME)
    run, secret = hold(waiting)
    assert build_payload(run).lock_is_open is (outcome == "failed")
    lock = {"python": "3.11", "platform": "linux_x86_64", "verifiers": "0.1.12", "wheels": []}
    assert say(run, secret, generation="legacy", verifiers="0.1.12", lock=lock, checks=PASSED).status_code == 200
    version = end(run)
    assert version.lock is not None
    assert version.lock["verifiers"] == taken


def test_checks_that_could_not_be_run_leave_what_was_there(waiting: Version) -> None:
    recheck_waiting(CAME)
    run, secret = hold(waiting)
    say(run, secret, failure=BAD.model_dump(mode="json"), checks=[])
    version = end(run, BAD)
    assert (version.state, version.failure, version.checks) == ("ready", None, waiting.checks)
    assert version.needs.count() == 1


def test_checks_that_are_cancelled_leave_what_was_there(waiting: Version) -> None:
    recheck_waiting(CAME)
    request_cancel(run=Run.objects.get(state=RunState.QUEUED.value))
    version = Version.objects.get()
    assert (version.state, version.checks) == ("ready", waiting.checks)


def test_one_check_waits_however_often_something_comes(waiting: Version) -> None:
    for _ in range(3):
        recheck_waiting(CAME)
    assert Run.objects.filter(state=RunState.QUEUED.value).count() == 1


def test_what_comes_while_checks_run_makes_one_more_follow(waiting: Version) -> None:
    recheck_waiting(CAME)
    run, secret = hold(waiting)
    recheck_waiting(CAME)
    recheck_waiting(CAME)
    assert not Run.objects.filter(state=RunState.QUEUED.value).exists()
    say(run, secret, checks=waiting.checks)
    version = end(run)
    assert Run.objects.get(state=RunState.QUEUED.value).pk == version.check_run_id != run.pk


def test_what_comes_while_checks_run_and_pass_makes_none_follow(waiting: Version) -> None:
    recheck_waiting(CAME)
    run, secret = hold(waiting)
    recheck_waiting(CAME)
    say(run, secret, checks=PASSED)
    end(run)
    assert not Run.objects.filter(state=RunState.QUEUED.value).exists()


def test_a_person_who_asks_while_checks_run_is_served_also_when_they_pass(waiting: Version, alice: User) -> None:
    recheck_waiting(CAME)
    run, secret = hold(waiting)
    recheck_version(version=waiting, user=alice)
    recheck_waiting(CAME)
    say(run, secret, checks=PASSED)
    end(run)
    assert Run.objects.filter(state=RunState.QUEUED.value).count() == 1


def test_what_came_during_a_build_that_could_not_know_it_is_checked_once(alice: User) -> None:
    version = push_version(alice)
    run = Run.objects.get(pk=version.build_run_id)
    secret = hold_run(run)
    bring(alice)
    say(run, secret, **lacking(DATA))
    end(run)
    run, secret = hold(version)
    say(run, secret, checks=lacking(DATA)["checks"])
    end(run)
    assert not Run.objects.filter(state=RunState.QUEUED.value).exists()


def test_a_version_without_a_lock_is_built_instead(waiting: Version) -> None:
    Version.objects.update(lock=None)
    recheck_waiting(CAME)
    version = Version.objects.get()
    assert (version.state, version.check_run_id) == ("building", None)
    assert build_payload(Run.objects.get(pk=version.build_run_id)).only_checks is False


def test_a_build_ends_the_checks_of_the_lock_that_it_replaces(waiting: Version, alice: User) -> None:
    recheck_waiting(CAME)
    run, secret = hold(waiting)
    with TestCase.captureOnCommitCallbacks(execute=True):
        rebuild_version(version=Version.objects.get(), user=alice)
    assert call(secret, "post", f"runs/{run.pk}/heartbeat", {}).json()["cancel"] is True
    assert say(run, secret, checks=PASSED).status_code == 404
    assert Version.objects.get().checks == waiting.checks


def test_nobody_who_has_left_checks_again(waiting: Version, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert recheck_version(version=waiting) is None


def test_finding_who_waits_costs_the_same_however_many_versions_there_are(alice: User) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            recheck_waiting(CAME)
        return len(captured)

    create_ready_version(alice)
    before = queries()
    for number in range(5):
        create_needing_version(Need(kind=NeedKind.DATA_SET, name="other/data"), user=alice, name=f"env-{number}")
    assert queries() == before


def test_a_secret_that_is_replaced_checks_again_what_was_given_it_and_did_not_pass(
    waiting: Version, alice: User, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    def replace(name: str) -> int:
        with django_capture_on_commit_callbacks(execute=True):
            set_secret(owner=alice.owner, name=name, value="hunter22", user=alice)
        return Run.objects.filter(state=RunState.QUEUED.value).count()

    Version.objects.update(check_settings={"secrets": ["API_KEY"]})
    assert replace("OTHER") == 0
    Version.objects.update(checks=PASSED)
    assert replace("API_KEY") == 0
    Version.objects.update(checks=waiting.checks)
    assert replace("API_KEY") == 1


def test_settings_are_added_to_those_that_are_kept_and_checked_with(waiting: Version, alice: User) -> None:
    set_secret(owner=alice.owner, name="API_KEY", value="hunter22", user=alice)
    create_endpoint(alice, "judge")
    assert call(alice, "post", f"{PATH}/check", {"env_args": {"n": 1}, "secrets": ["API_KEY"]}).status_code == 202
    answer = call(alice, "post", f"{PATH}/check", {"env_args": {"m": 2}, "judges": {"gpt": "alice/judge"}}).json()
    settings = answer["check_settings"]
    assert (settings["env_args"], settings["secrets"]) == ({"n": 1, "m": 2}, ["API_KEY"])
    payload = build_payload(Run.objects.get(pk=answer["check_run_id"]))
    assert (payload.secrets, payload.judges["gpt"].model) == ({"API_KEY": "hunter22"}, "alice/judge")


def test_nothing_given_checks_again_as_it_was_and_reset_forgets(waiting: Version, alice: User) -> None:
    call(alice, "post", f"{PATH}/check", {"env_args": {"n": 1}})
    assert call(alice, "post", f"{PATH}/check", {}).json()["check_settings"]["env_args"] == {"n": 1}
    forgotten = call(alice, "post", f"{PATH}/check?reset=true", {}).json()
    assert forgotten["check_settings"]["env_args"] == {}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"secrets": ["GONE"]}, 422, "secret_missing"),
        ({"allow_hosts": ["evil.example:443"]}, 422, "host_not_allowed"),
        ({"judges": {"gpt": "alice/gone"}}, 404, "model_not_found"),
        ({"secret": ["TYPO"]}, 422, "invalid"),
    ],
)
def test_what_cannot_be_given_is_refused_at_once(
    waiting: Version, alice: User, body: dict[str, object], status: int, code: str
) -> None:
    answer = call(alice, "post", f"{PATH}/check", body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert Version.objects.get().check_settings is None


def test_only_members_check(waiting: Version) -> None:
    assert call(make_user("mallory"), "post", f"{PATH}/check", {}).status_code == 403
    assert call(None, "post", f"{PATH}/check", {}).status_code == 401
