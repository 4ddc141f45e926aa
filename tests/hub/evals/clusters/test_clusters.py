"""Rollouts that failed or answered alike, and the lists of them."""

from __future__ import annotations

import pytest
from django.test import Client
from envhub.protocol.evals.clusters import RolloutClusters
from envhub.protocol.evals.rollouts import RolloutFailure, RolloutRecord
from envhub.protocol.runs import FailureKind

from hub.accounts.models import User
from hub.evals.clusters import answer_clusters
from hub.evals.clusters.answer_clusters import final_answer
from hub.evals.clusters.failure_clusters import failure_clusters
from hub.evals.clusters.membership import members
from hub.evals.models import Evaluation, RolloutIndex
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.evals import create_hosted, make_failure, make_record, start, store

pytestmark = pytest.mark.django_db


def answered(example: int, rollout: int, text: str, reward: float = 0.0) -> RolloutRecord:
    return make_record(example, rollout, reward, completion=[{"role": "assistant", "content": text}])


def lost(example: int, rollout: int, message: str) -> RolloutRecord:
    failure = RolloutFailure(kind=FailureKind.ENVIRONMENT, type="E", message=message)
    return make_failure(example, rollout, FailureKind.ENVIRONMENT, failure=failure)


@pytest.fixture
def user() -> User:
    return make_user("ada")


@pytest.fixture
def client(user: User) -> Client:
    found = Client()
    found.force_login(user)
    return found


@pytest.fixture
def evaluation(user: User) -> Evaluation:
    found = create_hosted(user, num_examples=9, rollouts_per_example=9)
    start(found)
    store(
        found,
        [
            answered(0, 0, "The answer is 42."),
            answered(0, 1, "So it must be \\boxed{42}"),
            answered(1, 0, "I think: answer: **42**", reward=0.2),
            answered(1, 1, "The answer is 42.", reward=1.0),
            answered(2, 0, "43"),
            lost(3, 0, "no file 17"),
            lost(3, 1, "no file 18"),
            lost(3, 2, "no room"),
        ],
    )
    return found


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("The answer is 42.", "42"),
        ("first \\boxed{7}, then \\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("<answer> Blue </answer> I hope", "blue"),
        ("6 * 7 #### 42", "42"),
        ("I cannot answer that", "i cannot answer that"),
        ("I do not know what the answer is.", "i do not know what the answer is"),
        ("bash(pytest -q)", "bash(pytest -q)"),
    ],
)
def test_what_is_compared_of_an_answer(text: str, same: str) -> None:
    assert final_answer(text) == same


def test_unsolved_rollouts_with_the_same_answer_are_one_cluster(evaluation: Evaluation) -> None:
    found = answer_clusters.answer_clusters(evaluation)
    (cluster,) = found.rows
    assert (cluster.count, len(cluster.examples), cluster.message) == (3, 2, "The answer is 42.")
    assert ((cluster.example, cluster.rollout), found.partial) == ((0, 0), False)


def test_the_filter_leads_to_exactly_the_rollouts_of_a_cluster(evaluation: Evaluation) -> None:
    wrong = answer_clusters.answer_clusters(evaluation)
    failed = failure_clusters(evaluation, ["environment"])
    assert [one.count for one in failed.rows] == [2, 1]
    for cluster in (*wrong.rows, *failed.rows):
        assert len(members(evaluation, cluster.name)) == cluster.count
    rows = RolloutIndex.objects.filter(pk__in=members(evaluation, failed.rows[0].name))
    assert sorted(row.rollout for row in rows) == [0, 1]
    for unknown in ("answer-0", "environment-0", "x", ""):
        assert members(evaluation, unknown) == []


def test_the_api_and_the_terminal_name_clusters_and_list_their_rollouts(
    user: User, client: Client, evaluation: Evaluation
) -> None:
    at, headers = f"/api/v1/evaluations/{evaluation.pk}", bearer(make_token(user))

    def found(query: str) -> list[tuple[int, int]]:
        rows = Client().get(f"{at}/rollouts?sort=example&{query}", headers=headers).json()["items"]
        return [(row["example"], row["rollout"]) for row in rows]

    listed = RolloutClusters.model_validate(Client().get(f"{at}/clusters", headers=headers).json()).clusters
    assert [(one.kind, one.count, one.examples) for one in listed] == [
        ("environment", 2, 1), ("environment", 1, 1), ("answer", 3, 2),
    ]  # fmt: skip
    assert found(f"cluster={listed[2].name}") == [(0, 0), (0, 1), (1, 0)]
    assert found("among=0,3.1") == [(0, 0), (0, 1), (3, 1)]
    assert Client().get(f"{at}/rollouts?among=x", headers=headers).status_code == 422
    page = client.get(f"/evaluations/{evaluation.pk}?cluster={listed[2].name}&sort=example&format=json")
    assert page["Location"] == f"{at}/rollouts?cluster={listed[2].name}&sort=example"
    assert client.get(f"/evaluations/{evaluation.pk}?format=json")["Location"] == at


def test_only_the_lowest_rewards_are_read(evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_clusters, "MOST_READ", 2)
    found = answer_clusters.answer_clusters(evaluation)
    assert ([one.count for one in found.rows], found.partial) == ([2], True)


def test_the_page_leads_to_a_cluster_and_to_one_of_its_rollouts(evaluation: Evaluation, client: Client) -> None:
    address = f"/evaluations/{evaluation.pk}"
    page = client.get(address).content.decode()
    (cluster,) = answer_clusters.answer_clusters(evaluation).rows
    assert f'href="{address}?cluster={cluster.name}#rollouts"' in page
    assert f'href="{address}/rollouts/0/0?cluster={cluster.name}&amp;sort=example"' in page
    listed = client.get(f"{address}?cluster={cluster.name}")
    assert sorted((row.example, row.rollout) for row in listed.context["rollouts"]) == [(0, 0), (0, 1), (1, 0)]
    assert "Only rollouts with the same wrong answer" in listed.content.decode()
    assert f'name="cluster" value="{cluster.name}"' in listed.content.decode()
    assert "Save view" not in listed.content.decode()
