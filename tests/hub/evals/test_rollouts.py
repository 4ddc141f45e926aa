"""Lists of rollouts: filtered, in each order, page by page without gaps or repeats."""

from __future__ import annotations

import random
from urllib.parse import urlsplit

import pytest
from django.test import Client
from envhub.protocol.base import Page
from envhub.protocol.evals.evaluations import RolloutRow
from envhub.protocol.runs import FailureKind

from hub.accounts.models import User
from hub.evals.models import Evaluation
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.evals import create_hosted, make_failure, make_record, store

pytestmark = pytest.mark.django_db
Rows = list[RolloutRow]


@pytest.fixture
def alice() -> User:
    return make_user("alice")


@pytest.fixture
def evaluation(alice: User) -> Evaluation:
    """23 scored rollouts with many equal rewards and 4 failures, in random order."""
    evaluation = create_hosted(alice, rollouts_per_example=9)
    records = [make_record(g, i, reward=(g + i) % 3 / 2) for g in range(3) for i in range(9)]
    records[4] = make_failure(0, 4, FailureKind.POLICY)
    records[11:14] = [make_failure(1, i, FailureKind.INFRASTRUCTURE) for i in (2, 3, 4)]
    random.Random(7).shuffle(records)
    store(evaluation, records)
    return evaluation


def _pages(alice: User, evaluation: Evaluation, query: str) -> Rows:
    client, headers = Client(), bearer(make_token(alice))
    url: str | None = f"/api/v1/evaluations/{evaluation.pk}/rollouts?limit=4&{query}"
    rows: Rows = []
    while url:
        response = client.get(url, headers=headers)
        assert response.status_code == 200, response.content
        page = Page[RolloutRow].model_validate_json(response.content)
        assert len(page.items) <= 4
        rows += page.items
        url = page.next and page.next.removeprefix("http://testserver")
        assert url is None or urlsplit(url).query
    return rows


def _places(rows: Rows) -> list[tuple[int, int]]:
    return [(row.example, row.rollout) for row in rows]


@pytest.mark.parametrize("sort", ["newest", "reward", "-reward", "example"])
def test_every_order_lists_every_rollout_once(alice: User, evaluation: Evaluation, sort: str) -> None:
    places = _places(_pages(alice, evaluation, f"sort={sort}"))
    assert sorted(places) == [(g, i) for g in range(3) for i in range(9)]


def test_newest_comes_first(alice: User, evaluation: Evaluation) -> None:
    ids = [int(row.id) for row in _pages(alice, evaluation, "")]
    assert ids == sorted(ids, reverse=True)


@pytest.mark.parametrize(("sort", "reverse"), [("reward", False), ("-reward", True)])
def test_by_reward_the_unscored_come_last(alice: User, evaluation: Evaluation, sort: str, reverse: bool) -> None:
    rewards = [row.reward for row in _pages(alice, evaluation, f"sort={sort}")]
    scored = [reward for reward in rewards if reward is not None]
    assert rewards == [*sorted(scored, reverse=reverse), *[None] * 4]


def test_by_example_they_are_in_the_order_of_the_data_set(alice: User, evaluation: Evaluation) -> None:
    places = _places(_pages(alice, evaluation, "sort=example"))
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("outcome=ok", 23),
        ("outcome=failed", 4),
        ("outcome=infrastructure", 3),
        ("outcome=truncated", 0),
        ("example=1", 9),
        ("min_reward=1", 8),
        ("max_reward=0.5&sort=reward", 15),
        ("min_reward=0.5&max_reward=0.5&sort=-reward", 7),
        ("outcome=failed&example=1&sort=reward", 3),
    ],
)
def test_filters_narrow_the_list(alice: User, evaluation: Evaluation, query: str, count: int) -> None:
    assert len(_pages(alice, evaluation, query)) == count


@pytest.mark.parametrize(
    "query",
    [
        *("outcome=nonsense", "min_reward=x", "max_reward=nan", "example=-1", "example=99999999999", "sort=age"),
        *("cursor=x", "sort=example&cursor=1", "sort=reward&cursor=nan,1", "sort=reward&cursor=1,x", "limit=0"),
        f"cursor={'9' * 5000}",
    ],
)
def test_a_query_that_makes_no_sense_is_refused(alice: User, evaluation: Evaluation, query: str) -> None:
    url = f"/api/v1/evaluations/{evaluation.pk}/rollouts?{query}"
    assert Client().get(url, headers=bearer(make_token(alice))).status_code == 422


def test_rollouts_are_listed_with_what_was_asked_and_answered(alice: User, evaluation: Evaluation) -> None:
    (row, *_) = _pages(alice, evaluation, "outcome=ok")
    assert (row.asked, row.answered) == (f"question {row.example}", "answer")


def test_a_failure_is_listed_with_its_kind_and_message(alice: User, evaluation: Evaluation) -> None:
    (row,) = _pages(alice, evaluation, "outcome=policy")
    assert (row.failure_kind, row.failure_message, row.reward) == (FailureKind.POLICY, "Timeout: no answer", None)
