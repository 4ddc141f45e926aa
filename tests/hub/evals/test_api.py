"""Evaluations over HTTP: who sees what, who may report, and how many queries a list costs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from envhub.protocol.accounts.users import Scope

from hub.accounts.models import User
from hub.evals.models import Evaluation
from hub.registry.models import Environment
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.catalog import create_endpoint
from tests.factories.evals import (
    create_hosted,
    create_pushed,
    make_config,
    make_failure,
    make_record,
    make_records,
    make_segment,
    start,
    store,
)
from tests.factories.registry import create_ready_version

pytestmark = pytest.mark.django_db
BASE = "/api/v1/evaluations"
MOST_QUERIES = 12


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def _get(path: str, user: User | None) -> Any:
    headers = bearer(make_token(user)) if user else {}
    return Client().get(path, headers=headers)


def _post(path: str, secret: str, body: str = "{}") -> Any:
    return Client().post(path, body, content_type="application/json", headers=bearer(secret))


def test_an_evaluation_is_started_and_shown(alice: User) -> None:
    create_ready_version(alice)
    create_endpoint(alice)
    body = make_config("alice/tiny-env", "alice/stub").model_dump_json()
    created = _post(BASE, make_token(alice), body)
    assert created.status_code == 201, created.content
    view = _get(f"{BASE}/{created.json()['id']}", alice).json()
    assert (view["environment"], view["version"], view["state"]) == ("alice/tiny-env", "0.1.0", "queued")


def test_a_token_without_the_scope_write_starts_nothing(alice: User) -> None:
    body = make_config("alice/tiny-env", "alice/stub").model_dump_json()
    assert _post(BASE, make_token(alice, Scope.READ), body).status_code == 403


def test_a_misspelt_field_is_refused_by_name(alice: User) -> None:
    response = _post(BASE, make_token(alice), '{"environment": "a/b", "model": "c/d", "num_example": 3}')
    assert response.status_code == 422
    assert "num_example" in response.json()["error"]["fields"]


def _paths(evaluation: Evaluation) -> list[str]:
    one = f"{BASE}/{evaluation.pk}"
    return [one, f"{one}/rollouts", f"{one}/rollouts/0/0", f"{one}/segments", f"{one}/export"]


def test_a_private_evaluation_is_not_found_by_anybody_else(alice: User) -> None:
    evaluation = create_hosted(alice)
    start(evaluation)
    store(evaluation, make_records([1]))
    for path in _paths(evaluation):
        assert _get(path, alice).status_code == 200, path
        assert [_get(path, user).status_code for user in (make_user(), None)] == [404, 404], path
    assert _get(BASE, make_user()).json()["items"] == []


def test_a_public_evaluation_of_a_public_environment_is_seen_by_everybody(alice: User) -> None:
    evaluation = create_hosted(alice, visibility="public")
    start(evaluation)
    store(evaluation, make_records([1]))
    assert [_get(path, None).status_code for path in _paths(evaluation)] == [200] * 5
    assert len(_get(BASE, None).json()["items"]) == 1


def test_a_public_evaluation_disappears_with_its_environment(alice: User) -> None:
    evaluation = create_hosted(alice, visibility="public")
    Environment.objects.update(visibility="private")
    assert _get(f"{BASE}/{evaluation.pk}", None).status_code == 404
    assert _get(f"{BASE}/{evaluation.pk}", alice).status_code == 200


@pytest.mark.parametrize("action", ["resume", "cancel", "finalize"])
def test_only_members_change_an_evaluation(alice: User, action: str) -> None:
    evaluation = create_hosted(alice, visibility="public")
    assert _post(f"{BASE}/{evaluation.pk}/{action}", make_token(make_user())).status_code == 403


def test_a_worker_reports_with_its_run_token(alice: User) -> None:
    evaluation = create_hosted(alice)
    token = start(evaluation)
    body = make_segment(make_records([1, 0])).model_dump_json()
    first = _post(f"{BASE}/{evaluation.pk}/segments", token, body)
    again = _post(f"{BASE}/{evaluation.pk}/segments", token, body)
    assert (first.json(), again.json()) == ({"stored": 2}, {"stored": 0})


def test_a_worker_that_was_cut_off_cannot_report_beside_its_successor(alice: User) -> None:
    evaluation = create_hosted(alice)
    stale = start(evaluation)
    start(evaluation)
    response = _post(f"{BASE}/{evaluation.pk}/segments", stale, make_segment(make_records([1])).model_dump_json())
    assert (response.status_code, response.json()["error"]["code"]) == (409, "stale_attempt")


def test_a_run_token_reports_to_its_own_evaluation_only(alice: User) -> None:
    mine, other = create_hosted(alice), create_hosted(alice)
    token = start(mine)
    start(other)
    body = make_segment(make_records([1])).model_dump_json()
    assert _post(f"{BASE}/{other.pk}/segments", token, body).status_code == 404


def test_nobody_reports_to_a_hosted_evaluation_by_hand(alice: User) -> None:
    evaluation = create_hosted(alice)
    body = make_segment(make_records([1])).model_dump_json()
    assert _post(f"{BASE}/{evaluation.pk}/segments", make_token(alice), body).status_code == 409


def test_the_pusher_reports_with_an_api_token(alice: User) -> None:
    create_ready_version(alice)
    evaluation = create_pushed(alice, "alice/tiny-env")
    body = make_segment(make_records([1, 0])).model_dump_json()
    assert _post(f"{BASE}/{evaluation.pk}/segments", make_token(alice), body).json() == {"stored": 2}
    done = _post(f"{BASE}/{evaluation.pk}/finalize", make_token(alice)).json()
    assert (done["state"], done["source"], done["summary"]["reward"]["mean"]) == ("succeeded", "pushed", 0.5)


def test_somebody_else_does_not_report_to_a_push(alice: User) -> None:
    create_ready_version(alice)
    evaluation = create_pushed(alice, "alice/tiny-env", visibility="public")
    body = make_segment(make_records([1])).model_dump_json()
    assert _post(f"{BASE}/{evaluation.pk}/segments", make_token(make_user()), body).status_code == 403


def test_a_rollout_is_shown_whole(alice: User) -> None:
    evaluation = create_hosted(alice)
    store(evaluation, [make_record(3, 1, 0.5)])
    record = _get(f"{BASE}/{evaluation.pk}/rollouts/3/1", alice).json()
    assert (record["reward"], record["turns"][0]["tokens"]["completion_ids"]) == (0.5, [3])
    assert _get(f"{BASE}/{evaluation.pk}/rollouts/3/2", alice).status_code == 404


@pytest.mark.parametrize("change", [{"example_hash": "f" * 65}, {"example_hash": "\0"}, {"content_hash": "F" * 64}])
def test_a_hash_that_no_column_holds_is_refused(alice: User, change: dict[str, str]) -> None:
    create_ready_version(alice)
    evaluation = create_pushed(alice, "alice/tiny-env")
    body = make_segment(make_records([1])).model_dump(mode="json")
    body["rows"][0] |= change
    assert _post(f"{BASE}/{evaluation.pk}/segments", make_token(alice), json.dumps(body)).status_code == 422


def test_segments_are_listed_with_what_still_counts(alice: User) -> None:
    evaluation = create_hosted(alice)
    store(evaluation, [make_failure(0, 0)])
    store(evaluation, [make_record(0, 0), make_record(0, 1)])
    (segment,) = _get(f"{BASE}/{evaluation.pk}/segments", alice).json()["items"]
    assert (segment["rollouts"], segment["blob"]["url"].startswith("http")) == (2, True)


@pytest.mark.parametrize(
    ("query", "count"), [("environment=alice/tiny-env", 2), ("model=alice/stub", 3), ("owner=bob", 0)]
)
def test_the_list_is_narrowed(alice: User, query: str, count: int) -> None:
    make_user("bob")
    create_hosted(alice)
    create_hosted(alice)
    create_hosted(alice, name="other-env")
    assert len(_get(f"{BASE}?{query}", alice).json()["items"]) == count


def test_a_list_by_an_environment_that_is_not_visible_is_not_found(alice: User) -> None:
    create_hosted(alice)
    Environment.objects.update(visibility="private")
    assert _get(f"{BASE}?environment=alice/tiny-env", None).status_code == 404


def test_the_lists_cost_the_same_few_queries_however_long_they_are(alice: User) -> None:
    evaluation = create_hosted(alice)
    store(evaluation, [make_record(g, i) for g in range(4) for i in range(16)])
    for name in ("a", "b", "c"):
        create_hosted(alice, name=name)
    headers = bearer(make_token(alice))
    paths = [BASE, f"{BASE}?environment=alice/tiny-env", f"{BASE}/{evaluation.pk}", "/api/v1/models"]
    paths += [f"{BASE}/{evaluation.pk}/{part}" for part in ("segments", "rollouts", "rollouts?sort=reward&outcome=ok")]
    for path in paths:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert Client().get(path, headers=headers).status_code == 200
        assert len(queries) <= MOST_QUERIES, (path, len(queries))
