"""Training runs over HTTP: who sees what, who may report, and how many queries a list costs."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from envhub.protocol.accounts.users import Scope
from envhub.protocol.training.metrics import EvaluationPoint
from envhub.protocol.training.runs import EvaluationReport

from hub.accounts.models import User
from hub.registry.models import Environment
from hub.training.models import TrainingRun
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.registry import create_ready_version
from tests.factories.training_runs import (
    adapter_report,
    checkpoint_report,
    create_run,
    create_trainable,
    start,
    step_report,
    training_request,
)

pytestmark = pytest.mark.django_db
BASE = "/api/v1/training"
MOST_QUERIES = 13


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def _get(path: str, user: User | None) -> Any:
    return Client().get(path, headers=bearer(make_token(user)) if user else {})


def _post(path: str, secret: str, body: Any = None) -> Any:
    content = "{}" if body is None else body.model_dump_json()
    return Client().post(path, content, content_type="application/json", headers=bearer(secret))


def test_a_run_is_submitted_and_shown(alice: User) -> None:
    create_ready_version(alice)
    create_trainable(alice.owner)
    created = _post(BASE, make_token(alice), training_request())
    assert created.status_code == 201, created.content
    view = _get(f"{BASE}/{created.json()['id']}", alice).json()
    assert (view["environments"], view["model"], view["state"]) == (["alice/tiny-env@0.1.0"], "base", "queued")
    assert (view["waiting_for"], view["toml"]) == ("no train worker is online", training_request().toml)


def test_a_wrong_key_is_refused_by_its_path_and_line(alice: User) -> None:
    response = _post(BASE, make_token(alice), training_request("ratoi = 1\n"))
    assert response.status_code == 422
    assert response.json()["error"]["fields"]["line 7, env[0].ratoi"].startswith("is unknown. Did you mean 'ratio'")


def test_a_token_without_the_scope_write_starts_nothing(alice: User) -> None:
    assert _post(BASE, make_token(alice, Scope.READ), training_request()).status_code == 403


def test_the_secrets_of_a_submission_are_never_shown(alice: User) -> None:
    training = create_run(alice, training_request(env={"TOOL_KEY": "hush-hush"}))
    assert "hush-hush" not in _get(f"{BASE}/{training.pk}", alice).content.decode()
    assert "hush-hush" not in TrainingRun.objects.get().encrypted_env


def _filled(alice: User) -> tuple[TrainingRun, str]:
    training = create_run(alice)
    token = start(training)
    one = f"{BASE}/{training.pk}"
    for body in (step_report(1), step_report(2)):
        assert _post(f"{one}/steps", token, body).status_code == 200
    point = EvaluationPoint(label="val", step=2, reward_mean=0.5)
    assert _post(f"{one}/evaluations", token, EvaluationReport(point=point)).json() == {"stored": True}
    assert _post(f"{one}/checkpoints", token, checkpoint_report(2)).json()["files"] == 2
    assert _post(f"{one}/adapters", token, adapter_report(2)).status_code == 200
    return training, token


def _paths(training: TrainingRun) -> list[str]:
    one = f"{BASE}/{training.pk}"
    lists = [f"{one}/{name}" for name in ("metrics", "rollouts", "checkpoints", "adapters", "export")]
    return [one, *lists, f"{one}/rollouts/1/0"]


def test_a_private_run_is_not_found_by_anybody_else(alice: User) -> None:
    training, _ = _filled(alice)
    for path in _paths(training):
        assert _get(path, alice).status_code == 200, path
        assert [_get(path, user).status_code for user in (make_user(), None)] == [404, 404], path
    assert _get(BASE, make_user()).json()["items"] == []


def test_a_public_run_is_seen_by_everybody_until_an_environment_is_private(alice: User) -> None:
    training, _ = _filled(alice)
    TrainingRun.objects.update(visibility="public")
    assert [_get(path, None).status_code for path in _paths(training)] == [200] * len(_paths(training))
    assert len(_get(BASE, None).json()["items"]) == 1
    Environment.objects.update(visibility="private")
    assert _get(f"{BASE}/{training.pk}", None).status_code == 404


@pytest.mark.parametrize("action", ["stop", "resume"])
def test_only_members_change_a_run(alice: User, action: str) -> None:
    training = create_run(alice)
    TrainingRun.objects.update(visibility="public")
    assert _post(f"{BASE}/{training.pk}/{action}", make_token(make_user())).status_code == 403


def test_what_a_worker_reports_is_read_back(alice: User) -> None:
    training, _ = _filled(alice)
    one = f"{BASE}/{training.pk}"
    view = _get(one, alice).json()
    assert (view["step"], view["latest"]["step"], view["best_reward"]) == (2, 2, 0.5)
    assert [adapter["name"] for adapter in view["adapters"]] == ["sort-step-2"]
    assert view["evaluations"][0]["label"] == "val"
    metrics = _get(f"{one}/metrics?after_step=1", alice).json()["items"]
    assert [(step["step"], len(step["evaluations"])) for step in metrics] == [(2, 1)]
    rows = _get(f"{one}/rollouts", alice).json()["items"]
    assert [(row["step"], row["index"], row["reward"]) for row in rows] == [(2, 0, 1.0), (2, 1, 0.0)]
    record = _get(f"{one}/rollouts/2/1", alice).json()
    assert (record["reward"], record["extras"]["training"]["turns"][0]["advantages"]) == (0.0, [0.5])


def test_rollouts_are_narrowed_and_paged_by_their_index(alice: User) -> None:
    training = create_run(alice)
    token = start(training)
    _post(f"{BASE}/{training.pk}/steps", token, step_report(1, (1.0, 0.5, 0.0)))
    one = f"{BASE}/{training.pk}/rollouts"
    first = _get(f"{one}?limit=2", alice).json()
    assert [row["index"] for row in first["items"]] == [0, 1]
    second = _get(first["next"].partition("8000")[2] or first["next"].partition("testserver")[2], alice).json()
    assert ([row["index"] for row in second["items"]], second["next"]) == ([2], None)
    assert _get(f"{one}?environment=other", alice).json()["items"] == []
    assert _get(f"{one}?outcome=odd", alice).status_code == 422
    assert _get(f"{one}?step=9", alice).status_code == 404


def test_a_worker_that_was_cut_off_cannot_report_beside_its_successor(alice: User) -> None:
    training = create_run(alice)
    stale = start(training)
    start(training)
    for what, body in (
        ("steps", step_report()),
        ("evaluations", EvaluationReport(point=EvaluationPoint(label="val", step=1))),
        ("checkpoints", checkpoint_report(1)),
        ("adapters", adapter_report(1)),
    ):
        response = _post(f"{BASE}/{training.pk}/{what}", stale, body)
        assert (response.status_code, response.json()["error"]["code"]) == (409, "stale_attempt"), what


def test_a_run_token_reports_to_its_own_run_only(alice: User) -> None:
    mine = create_run(alice)
    other = create_run(alice, training_request(name="other"))
    token = start(mine)
    start(other)
    assert _post(f"{BASE}/{other.pk}/steps", token, step_report()).status_code == 404
    assert _post(f"{BASE}/{mine.pk}/steps", make_token(alice), step_report()).status_code == 401


@pytest.mark.parametrize(
    "path", ["", "/{one}", "/{one}/metrics", "/{one}/rollouts", "/{one}/checkpoints", "/{one}/adapters"]
)
def test_a_list_costs_few_queries(alice: User, path: str) -> None:
    training, _ = _filled(alice)
    for number in range(3):
        create_run(alice, training_request(name=f"more-{number}"))
    token = bearer(make_token(alice))
    url = BASE + path.format(one=training.pk)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert Client().get(url, headers=token).status_code == 200
    assert len(queries) <= MOST_QUERIES, "\n".join(query["sql"][:200] for query in queries)
