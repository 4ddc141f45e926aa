"""What people outside of the owner see of a public evaluation's settings."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from hub.accounts.models import User
from hub.evals.hidden_values import shown_outside
from hub.evals.models import Evaluation
from hub.registry.models import Environment
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.evals import create_hosted, make_records, start, store

pytestmark = pytest.mark.django_db
KEY, HOST = "sk-0123456789", "db.corp.example:5432"


@pytest.fixture
def alice() -> User:
    return make_user("alice")


@pytest.fixture
def evaluation(alice: User) -> Evaluation:
    found = create_hosted(alice, env_args={"api_key": KEY, "level": 3})
    Evaluation.objects.filter(pk=found.pk).update(config=found.config | {"allow_hosts": [HOST]})
    Environment.objects.filter(pk=found.environment_id).update(visibility="public")
    Evaluation.objects.filter(pk=found.pk).update(visibility="public")
    return found


def test_what_is_the_owners_alone_is_left_out_of_every_table() -> None:
    table = {"args": {"password": "x", "n": 1}, "judges": {"j": "lab/private"}, "secrets": ["A"]}
    assert shown_outside({"env": [table], "allow_hosts": ["a"], "max_steps": 3}) == {
        "env": [{"args": {"password": "(not shown)", "n": 1}}],
        "max_steps": 3,
    }


@pytest.mark.parametrize("address", ["", "/fingerprint"])
def test_the_api_shows_members_all_and_others_neither_hosts_nor_keys(
    alice: User, evaluation: Evaluation, address: str
) -> None:
    path = f"/api/v1/evaluations/{evaluation.pk}{address}"
    inside = Client().get(path, headers=bearer(make_token(alice)))
    outside = [Client().get(path), Client().get(path, headers=bearer(make_token(make_user("bob"))))]
    assert (KEY in inside.text, HOST in inside.text) == (True, True)
    assert [(found.status_code, KEY in found.text, HOST in found.text) for found in outside] == [
        (200, False, False)
    ] * 2
    assert {found.json().get("sha256") for found in (inside, *outside)} == {inside.json().get("sha256")}


def test_lists_show_members_all_for_one_query_and_others_neither_hosts_nor_keys(
    alice: User, evaluation: Evaluation
) -> None:
    found, queries = [], []
    for headers in (bearer(make_token(alice)), bearer(make_token(make_user("bob"))), {}):
        answer = Client().get("/api/v1/evaluations", headers=headers)
        found.append((answer.status_code, KEY in answer.text, HOST in answer.text))
    headers = bearer(make_token(alice))
    Client().get("/api/v1/evaluations", headers=headers)  # notes that the token was used
    for _ in range(2):
        with CaptureQueriesContext(connection) as asked:
            Client().get("/api/v1/evaluations", headers=headers)
        queries.append(len(asked))
        create_hosted(alice, env_args={"level": 4})
    assert found == [(200, True, True), (200, False, False), (200, False, False)]
    assert queries[0] == queries[1]


@pytest.mark.parametrize("page", ["/evaluations/{pk}", "/evaluations", "/evaluations/compare?a={pk}"])
def test_pages_show_strangers_neither_hosts_nor_keys(evaluation: Evaluation, page: str) -> None:
    found = Client().get(page.format(pk=evaluation.pk))
    assert (found.status_code, KEY in found.text, HOST in found.text) == (200, False, False)


@pytest.mark.parametrize("path", ["/evaluations/compare?a={a}&b={b}", "/api/v1/evaluations/{a}/compare/{b}"])
def test_a_comparison_shows_members_all_and_others_neither_hosts_nor_keys(
    alice: User, evaluation: Evaluation, path: str
) -> None:
    other = create_hosted(alice)
    for each, rewards in ((evaluation, [1.0, 0.0]), (other, [0.5, 0.5])):
        start(each)
        store(each, make_records(rewards, rewards))
    Evaluation.objects.update(visibility="public")
    address, inside = path.format(a=evaluation.pk, b=other.pk), Client()
    inside.force_login(alice)
    found = [client.get(address) for client in (inside, Client())]
    assert [answer.status_code for answer in found] == [200, 200]
    assert [(KEY in answer.text, HOST in answer.text) for answer in found] == [(True, True), (False, False)]


def test_a_members_page_shows_all(alice: User, evaluation: Evaluation) -> None:
    client = Client()
    client.force_login(alice)
    text = client.get(f"/evaluations/{evaluation.pk}").text
    assert (KEY in text, HOST in text) == (True, True)
