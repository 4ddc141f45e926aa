"""An evaluation of a version that lacks something is refused before it occupies a worker, unless it brings that."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from envhub.protocol.registry.needs import Need, NeedKind, hint_for
from envhub.protocol.registry.packages import Check
from envhub.protocol.runs import RunState
from pytest_django import Settings

from hub.accounts.models import User
from hub.core.errors import Conflict
from hub.evals.models import Evaluation
from hub.evals.services import create_evaluation, resume_evaluation
from hub.evals.wire import eval_payload
from hub.registry.models import Version
from hub.secrets.services import set_secret
from tests.factories.accounts import make_user
from tests.factories.catalog import create_endpoint
from tests.factories.evals import create_hosted, make_config
from tests.factories.registry import create_needing_version
from tests.hub.registry.api_client import call
from tests.hub.registry.test_rechecks import bring

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    user = make_user("alice")
    create_endpoint(user)
    set_secret(owner=user.owner, name="API_KEY", value="hunter22", user=user)
    return user


def need(kind: NeedKind, name: str) -> Need:
    return Need(kind=kind, name=name)


def evaluate(user: User, **changes: Any) -> Evaluation:
    return create_evaluation(user=user, owner=user.owner, config=make_config("alice/tiny-env", "alice/stub", **changes))


@pytest.mark.parametrize(
    ("chosen", "checked", "tries"),
    [({"id": "pi"}, None, True), ({"id": "pi"}, {"id": "pi"}, False), (None, {"id": "pi"}, False), (None, None, False)],
)
def test_a_harness_that_no_check_had_is_tried_by_the_worker(
    alice: User, chosen: dict[str, str] | None, checked: dict[str, str] | None, tries: bool
) -> None:
    version = create_needing_version(user=alice)
    if checked:
        Version.objects.filter(pk=version.pk).update(check_settings={"harness": checked})
    run = evaluate(alice, harness=chosen, env_args={"words": 1}).run
    assert run is not None
    assert eval_payload(run).tries_harness is tries


def test_a_program_is_lacking_only_to_the_harness_of_the_checks(alice: User) -> None:
    create_needing_version(need(NeedKind.PROGRAM, "npm:pi-acp@0.0.33"), user=alice)
    with pytest.raises(Conflict, match=r"needs npm package pi-acp@0\.0\.33") as caught:
        evaluate(alice)
    assert "npm registry" in caught.value.hint
    evaluate(alice, harness={"id": "bash"})


def test_a_browser_says_how_its_operator_brings_it() -> None:
    browser = need(NeedKind.PROGRAM, "playwright:chromium-1255")
    assert browser.words == "Playwright's browser chromium-1255"
    assert "PLAYWRIGHT_BROWSERS_PATH=/usr/lib/playwright" in hint_for(browser, "alice/web")


def test_every_need_is_named_with_what_meets_it(alice: User) -> None:
    create_needing_version(
        need(NeedKind.DATA_SET, "openai/gsm8k"),
        need(NeedKind.SECRET, "API_KEY"),
        need(NeedKind.ARGUMENT, "path"),
        need(NeedKind.SANDBOX, "*"),
        user=alice,
    )
    config = make_config("alice/tiny-env", "alice/stub").model_dump(mode="json")
    answer = call(alice, "post", "evaluations", config)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (409, "needs_unmet")
    assert error["message"] == (
        "alice/tiny-env@0.1.0 needs data set openai/gsm8k, secret API_KEY, argument path, sandbox"
    )
    assert error["fields"] == {
        "environment": "needs data set openai/gsm8k, sandbox",
        "secrets": "needs secret API_KEY",
        "env_args": "needs argument path",
    }
    assert "data set openai/gsm8k: `hub data add openai/gsm8k DIRECTORY`" in error["hint"]
    assert "give it to the run, `--secret API_KEY`, once `hub secret set API_KEY` has stored it" in error["hint"]
    assert "sandbox: hubs have sandboxes for prime-sandboxes" in error["hint"]


@pytest.mark.parametrize(
    ("lacking", "brought"),
    [
        (need(NeedKind.SECRET, "API_KEY"), {"secrets": ("API_KEY",)}),
        (need(NeedKind.ARGUMENT, "path"), {"env_args": {"path": "x"}}),
        (need(NeedKind.ARGUMENT, "path"), {"taskset": {"path": "x"}}),
        (need(NeedKind.JUDGE, "gpt"), {"judges": {"gpt": "alice/stub"}}),
        (need(NeedKind.JUDGE, "gpt"), {"judges": {"*": "alice/stub"}}),
        (need(NeedKind.HOST, "api.example.com:443"), {"allow_hosts": ("api.example.com:443",)}),
    ],
)
def test_what_the_submission_brings_is_not_lacking(
    alice: User, lacking: Need, brought: dict[str, Any], settings: Settings
) -> None:
    settings.HUB = settings.HUB.model_copy(update={"box_allow_hosts": ["api.example.com:443"]})
    create_needing_version(lacking, user=alice)
    with pytest.raises(Conflict) as caught:
        evaluate(alice)
    assert caught.value.code == "needs_unmet"
    assert evaluate(alice, **brought).state == "queued"


def test_a_data_set_that_has_come_is_not_lacking_though_no_check_has_said_so_yet(alice: User) -> None:
    create_needing_version(need(NeedKind.DATA_SET, "openai/gsm8k"), user=alice)
    with pytest.raises(Conflict):
        evaluate(alice)
    bring(alice)
    assert evaluate(alice).state == "queued"


def test_what_the_operators_endpoint_lets_through_is_not_lacking(alice: User, settings: Settings) -> None:
    create_needing_version(need(NeedKind.MODEL, "Qwen/Qwen3-0.6B"), user=alice)
    upstream = {"huggingface_url": "http://127.0.0.1:9", "huggingface_repositories": ["Qwen/*"]}
    settings.HUB = settings.HUB.model_copy(update=upstream)
    assert evaluate(alice).state == "queued"


def test_what_the_checks_were_given_each_run_must_bring(alice: User) -> None:
    version = create_needing_version(user=alice)
    granted = [need(NeedKind.SECRET, "API_KEY").model_dump(mode="json")]
    Version.objects.filter(pk=version.pk).update(checks=[], granted=granted)
    with pytest.raises(Conflict, match="needs secret API_KEY"):
        evaluate(alice)
    assert evaluate(alice, secrets=("API_KEY",)).state == "queued"


def test_a_version_that_does_not_load_is_refused_unless_it_may_load_otherwise(alice: User) -> None:
    version = create_needing_version(user=alice)
    failed = Check(name="load", passed=False, summary="KeyError: 'city'")
    Version.objects.filter(pk=version.pk).update(checks=[failed.model_dump(mode="json")])
    with pytest.raises(Conflict, match="KeyError: 'city'") as caught:
        evaluate(alice)
    assert caught.value.code == "load_failed"
    assert evaluate(alice, env_args={"city": "Oslo"}).state == "queued"


def test_a_failed_rollout_of_the_checks_refuses_nothing(alice: User) -> None:
    version = create_needing_version(user=alice)
    failed = Check(name="scripted-rollout", passed=False, summary="KeyError: 'city'")
    Version.objects.filter(pk=version.pk).update(checks=[failed.model_dump(mode="json")])
    assert evaluate(alice).state == "queued"


def test_going_on_is_refused_as_starting_is() -> None:
    evaluation = create_hosted()
    lacking = need(NeedKind.DATA_SET, "openai/gsm8k")
    check = Check(name="load", passed=False, summary="no", needs=(lacking,))
    Version.objects.update(checks=[check.model_dump(mode="json")])
    Evaluation.objects.update(state=RunState.FAILED.value)
    evaluation.refresh_from_db()
    with pytest.raises(Conflict, match="needs data set openai/gsm8k"):
        resume_evaluation(user=evaluation.created_by, evaluation=evaluation)


@pytest.mark.parametrize(
    ("kind", "name", "refused"),
    [
        (NeedKind.HOST, "data.example.org:80", False),
        (NeedKind.DATA_SET, "data.example.org:80", False),
        (NeedKind.SANDBOX, "python:3.13", False),  # an image that other tasks may not name
        (NeedKind.SANDBOX, "*", True),
    ],
)
def test_what_arguments_commonly_choose_is_not_known_to_be_needed_with_others(
    alice: User, kind: NeedKind, name: str, refused: bool
) -> None:
    create_needing_version(need(kind, name), user=alice)
    with pytest.raises(Conflict):
        evaluate(alice)
    with pytest.raises(Conflict) if refused else nullcontext():
        evaluate(alice, env_args={"address": "http://elsewhere.example.org/"})
