"""What a report says that a version lacks, and what is kept and shown of it."""

from __future__ import annotations

from typing import Any

import pytest

from hub.accounts.models import User
from hub.registry.models import Version, VersionNeed
from hub.registry.wire import build_payload
from hub.runs.models import Run
from hub.secrets.services import set_secret
from tests.factories.accounts import make_user
from tests.factories.registry import push_version
from tests.hub.registry.api_client import call
from tests.hub.registry.test_builds import BAD, finish, good_report, report

pytestmark = pytest.mark.django_db
DATA = {"kind": "data_set", "name": "openai/gsm8k", "detail": "it is not in this hub"}
KEY = {"kind": "secret", "name": "API_KEY"}


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def lacking(*needs: dict[str, Any], **changes: Any) -> dict[str, Any]:
    body = good_report()
    body["checks"].append({"name": "load", "passed": False, "summary": "it could not be loaded", "needs": needs})
    return body | changes


def shown(path: str = "environments/alice/tiny-env/versions/0.1.0") -> Any:
    return call(None, "get", path).json()


def test_a_version_that_lacks_something_is_ready_and_says_what(alice: User) -> None:
    run, _ = report(push_version(alice), lacking(DATA, KEY, DATA))
    finish(run)
    view = shown()
    assert (view["state"], view["failure"]) == ("ready", None)
    assert [(need["kind"], need["name"]) for need in view["needs"]] == [
        ("data_set", "openai/gsm8k"),
        ("secret", "API_KEY"),
    ]
    assert shown("environments/alice/tiny-env")["latest_needs"] == 2


def test_a_version_whose_load_failed_is_ready_too(alice: User) -> None:
    run, _ = report(push_version(alice), lacking())
    assert finish(run).state == "ready"


def test_what_cannot_be_installed_for_want_of_a_host_is_not_invalid(alice: User) -> None:
    need = {"kind": "git_host", "name": "github.com"}
    checks = [{"name": "resolve", "passed": False, "summary": "a direct reference", "needs": [need]}]
    run, _ = report(push_version(alice), {"checks": checks, "failure": BAD.model_dump(mode="json")})
    built = finish(run, BAD)
    assert (built.state, built.failure, built.lock) == ("ready", None, None)


def test_who_waits_for_what_is_indexed_and_forgotten_with_the_next_report(alice: User) -> None:
    version = push_version(alice)
    report(version, lacking(DATA, KEY))
    assert set(VersionNeed.objects.values_list("kind", "name")) == {("data_set", "openai/gsm8k"), ("secret", "API_KEY")}
    report(version, good_report())
    assert not VersionNeed.objects.exists()


def test_the_releases_that_were_tried_are_kept(alice: User) -> None:
    tried = [
        {"verifiers": "0.1.15.dev11", "stage": "describe", "code": "x", "message": "no", "seconds": 2.5},
        {"verifiers": "0.1.14", "stage": "", "chosen": True},
    ]
    report(push_version(alice), good_report() | {"tried": tried})
    assert [(one["verifiers"], one["stage"], one["chosen"]) for one in shown()["tried"]] == [
        ("0.1.15.dev11", "describe", False),
        ("0.1.14", "", True),
    ]


def test_what_a_version_loads_as_is_its_generation(alice: User) -> None:
    version = push_version(alice)
    assert version.evidence is not None
    assert version.evidence["generation"] == "legacy"
    for _ in range(2):
        report(version, good_report() | {"generation": "harness"})
    found = shown()["generation"]
    assert found["generation"] == "harness"
    assert found["reasons"] == [
        *version.evidence["reasons"],
        "the build loaded it as harness with verifiers 0.1.14",
    ]


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ("[tool.envhub]\nbuild_args = {n = 1}\nenv_args = {n = 2}\n", {"n": 1}),
        ("[tool.envhub]\nenv_args = {n = 2}\n[tool.verifiers.eval]\nenv_args = {n = 3}\n", {"n": 2}),
        ("[tool.verifiers.eval]\nenv_args = {n = 3}\n", {"n": 3}),
        ("[tool.envhub]\nbuild_args = 4\nsecrets = ['API_KEY']\n", {}),
    ],
)
def test_a_package_gives_its_checks_arguments_and_never_grants(alice: User, tables: str, expected: object) -> None:
    set_secret(owner=alice.owner, name="API_KEY", value="hunter22", user=alice)
    payload = build_payload(Run.objects.get(pk=push_version(alice, pyproject=tables).build_run_id))
    assert (payload.settings.env_args, payload.settings.secrets, payload.secrets) == (expected, (), {})


def test_what_is_granted_is_given_to_builds_while_it_is_there(alice: User) -> None:
    version = push_version(alice)
    for name in ("API_KEY", "OTHER"):
        set_secret(owner=alice.owner, name=name, value="hunter22", user=alice)
    Version.objects.update(check_settings={"secrets": ["API_KEY", "GONE"], "judges": {"gpt": "alice/gone"}})
    payload = build_payload(Run.objects.get(pk=version.build_run_id))
    assert (payload.secrets, payload.judges, payload.only_checks) == ({"API_KEY": "hunter22"}, {}, False)


def test_a_need_that_the_settings_met_is_remembered_for_runs(alice: User) -> None:
    version = push_version(alice)
    report(version, lacking(KEY, DATA))
    Version.objects.update(check_settings={"secrets": ["API_KEY"]})
    report(version, lacking(DATA))
    view = shown()
    assert ([need["name"] for need in view["needs"]], [need["name"] for need in view["granted"]]) == (
        ["openai/gsm8k"],
        ["API_KEY"],
    )


def test_what_a_box_says_of_its_secrets_is_masked(alice: User) -> None:
    version = push_version(alice)
    set_secret(owner=alice.owner, name="API_KEY", value="hunter22", user=alice)
    Version.objects.update(check_settings={"secrets": ["API_KEY"]})
    body = good_report() | {"describe": {"url": ["https://x/?key=hunter22"]}}
    body["checks"].append({"name": "load", "passed": False, "summary": "hunter22 is refused", "detail": "hunter22"})
    report(version, body)
    view = shown()
    assert "hunter22" not in str(view)
    assert (view["describe"], view["checks"][1]["summary"]) == ({"url": ["https://x/?key=***"]}, "*** is refused")


def test_a_hostile_report_has_bounds(alice: User) -> None:
    needs = [{"kind": "file", "name": f"https://x/{number}"} for number in range(150)]
    tried = [{"verifiers": "0.1.14", "stage": "load", "message": "x" * 9000}] * 80
    _, answer = report(push_version(alice), lacking(*needs) | {"tried": tried})
    assert answer.status_code == 200
    assert VersionNeed.objects.count() == len(shown()["needs"]) == 100
    assert (len(shown()["tried"]), len(shown()["tried"][0]["message"])) == (50, 2000)


def test_settings_that_are_too_large_are_refused(alice: User) -> None:
    push_version(alice)
    half = {"a": "x" * 40_000}  # one field alone may be as large
    answer = call(
        alice, "post", "environments/alice/tiny-env/versions/0.1.0/check", {"env_args": half, "harness": half}
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "settings_too_large")
