"""Numbers of evaluations, and what else adds them up, tell nobody of those that they may not read."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps
from django.test import Client
from envhub.protocol.accounts.users import Scope
from envhub.protocol.evals.evaluations import EvaluationPush
from envhub.protocol.visibility import Visibility
from pytest_django import DjangoAssertNumQueries

from hub.accounts.models import Owner, User
from hub.evals.models import Evaluation
from hub.evals.queries import visible_evaluations
from hub.evals.services import push_evaluation, share_evaluation
from hub.evals.standings.cards import refresh_cards
from hub.registry.cards import evaluations_seen
from hub.registry.models import Environment, EvaluationCount
from tests.factories.accounts import bearer, make_owner, make_token, make_user
from tests.factories.evals import create_hosted, make_config, make_records, store, succeed
from tests.factories.registry import create_environments

pytestmark = pytest.mark.django_db
LISTS = ("/environments", "/environments?sort=evaluated", "/environments/ada/tiny-env", "/ada")


@pytest.fixture
def ada() -> User:
    return make_user("ada")


@pytest.fixture
def team(ada: User) -> Owner:
    return make_owner("lab", members=[make_user("lara")])


@pytest.fixture
def environment(ada: User, team: Owner) -> Environment:
    """Of ada: one evaluation of hers is public and two are private; bob and lara's team have a private one each."""
    shown = create_hosted(ada)
    for one in (shown, create_hosted(ada), create_hosted(ada)):
        store(one, make_records((1.0, 0.0)))
        succeed(one)
    share_evaluation(user=ada, evaluation=shown, visibility=Visibility.PUBLIC)
    bob = make_user("bob")
    push(bob, bob.owner)
    push(User.objects.get(username="lara"), team)
    refresh_cards()
    return Environment.objects.get(pk=shown.environment_id)


def push(user: User, owner: Owner) -> None:
    config = make_config("ada/tiny-env", "gpt-x")
    named = {"environment": "ada/tiny-env", "model": "gpt-x", "fingerprint": "f" * 64}
    push_evaluation(user=user, owner=owner, request=EvaluationPush(**named, config=config, format="results.jsonl"))


SEEN = {"": 1, "ada": 3, "bob": 2, "lara": 2, "boss": 5}


def viewer(name: str) -> User | None:
    if name == "boss":
        return make_user("boss", is_superuser=True)
    return User.objects.get(username=name) if name else None


@pytest.mark.parametrize(("name", "seen"), SEEN.items())
def test_each_viewer_is_told_what_they_may_read(environment: Environment, name: str, seen: int) -> None:
    user, client = viewer(name), Client()
    headers = bearer(make_token(user, Scope.READ, *([Scope.ADMIN] if name == "boss" else []))) if user else {}
    view = client.get("/api/v1/environments/ada/tiny-env", headers=headers).json()
    listed = client.get("/api/v1/environments", headers=headers).json()["items"]
    rows = client.get("/api/v1/evaluations?environment=ada/tiny-env", headers=headers).json()["items"]
    assert [view["evaluations"], *(one["evaluations"] for one in listed), len(rows)] == [seen] * 3
    if user:
        assert visible_evaluations(user).filter(environment=environment).count() == seen
        client.force_login(user)
    said = f"{seen} evaluation{'s'[: seen != 1]}<"
    for path in LISTS:
        html = client.get(path).content.decode()
        assert said in html or f'Evaluations <span class="muted num">{seen}</span>' in html, path
        others = (f"{other} evaluation" for other in {1, 2, 3, 4, 5} - {seen})
        assert not any(f">{other}" in html for other in others), path


def test_the_order_by_evaluations_and_its_cursor_count_public_ones_alone(environment: Environment) -> None:
    create_environments(make_user("zoe").owner, 1)
    page = Client().get("/api/v1/environments?sort=evaluated&limit=1").json()
    assert page["items"][0]["name"] == "tiny-env"
    assert "cursor=1%2C" in page["next"]
    environment.visibility = "private"
    environment.card_stale = True
    environment.save()
    refresh_cards()
    environment.refresh_from_db()
    assert environment.evaluations == 0
    assert evaluations_seen(User.objects.get(username="ada"), [environment]) == {environment.pk: 3}


def test_what_is_made_private_leaves_lists_before_the_card_is_made_anew(environment: Environment) -> None:
    assert "1 evaluation<" in Client().get("/environments").content.decode()
    shown = Evaluation.objects.get(visibility="public")
    share_evaluation(user=shown.created_by, evaluation=shown, visibility=Visibility.PRIVATE)
    html = Client().get("/environments?leaderboard=yes").content.decode()
    assert "tiny-env" not in html
    assert 'class="env__best"><b' not in Client().get("/environments").content.decode()


def test_counts_of_before_are_made_by_the_migration(environment: Environment) -> None:
    fields = ("environment_id", "owner_id", "visibility", "evaluations")
    before = sorted(EvaluationCount.objects.filter(evaluations__gt=0).values_list(*fields), key=str)
    EvaluationCount.objects.all().delete()
    Environment.objects.update(evaluations=77)
    import_module("hub.evals.migrations.0013_fill_counts").fill(apps, None)
    assert sorted(EvaluationCount.objects.values_list(*fields), key=str) == before
    environment.refresh_from_db()
    assert environment.evaluations == 1


def test_many_rows_cost_one_query(ada: User, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    create_environments(ada.owner, 30)
    rows = list(Environment.objects.all())
    with django_assert_num_queries(1):
        assert set(evaluations_seen(ada, rows).values()) == {0}
