"""The list that a rollout was opened from: it stays inside, from whatever view of the evaluation it came."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from envhub.protocol.evals.rollouts import RolloutRecord, Usage

from hub.accounts.models import User
from hub.core.errors import Invalid
from hub.evals.chosen_rollouts import chosen, written
from hub.evals.models import Evaluation, RolloutIndex
from hub.evals.paging import Sort, first_rows, position
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, make_failure, make_record, start, store

pytestmark = pytest.mark.django_db


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
    """Examples 1 and 3 are mixed; 3 has a failure as well."""
    found = create_hosted(user, num_examples=5, rollouts_per_example=3)
    start(found)
    rewards = {0: (1.0, 1.0), 1: (0.0, 1.0), 2: (0.0, 0.0), 3: (1.0, 0.5), 4: (1.0, 1.0)}
    store(
        found, [make_record(example, at, reward) for example, two in rewards.items() for at, reward in enumerate(two)]
    )
    store(found, [make_failure(3, 2), make_failure(4, 2)])
    return found


def links(page: str, evaluation: Evaluation) -> list[str]:
    """The rollouts that a table links to."""
    page = page[page.index('id="results"') :]
    return re.findall(rf'href="(/evaluations/{evaluation.pk}/rollouts/[^"]*)"', page.replace("&amp;", "&"))


def walk(client: Client, address: str, key: str) -> list[str]:
    """The rollouts that repeated presses of a key lead to."""
    found: list[str] = []
    while True:
        page = client.get(address).content.decode().replace("&amp;", "&")
        link = re.search(rf'data-key="{key}" href="([^"]*)"', page)
        if link is None:
            return found
        address = link[1]
        found.append(address.partition("?")[0].partition("/rollouts/")[2])


def test_mixed_examples_are_walked_alone(client: Client, evaluation: Evaluation) -> None:
    page = client.get(f"/evaluations/{evaluation.pk}?show=mixed").content.decode()
    first = links(page, evaluation)[0]
    assert "/rollouts/1/0?" in first
    assert walk(client, first, "J") == ["1/1", "3/0", "3/1", "3/2"]
    assert walk(client, first, "n") == ["3/2"]
    inside = client.get(first).content.decode().replace("&amp;", "&")
    assert re.search(rf'href="/evaluations/{evaluation.pk}\?[^"]*show=mixed[^"]*#rollouts"', inside)


def test_all_examples_are_walked_past_the_page(client: Client, evaluation: Evaluation) -> None:
    page = client.get(f"/evaluations/{evaluation.pk}?show=examples").content.decode()
    assert links(page, evaluation)[0].endswith("/rollouts/0/0?show=examples&sort=example")


def test_suspicious_rollouts_are_walked_in_the_order_of_their_list(client: Client, user: User) -> None:
    found = create_hosted(user, num_examples=30)
    start(found)

    def used(example: int, reward: float, tokens: int) -> RolloutRecord:
        return make_record(example, 0, reward, usage=Usage(prompt_tokens=2, completion_tokens=tokens))

    store(found, [used(n, 0.6, 100) for n in range(20)] + [used(20, 0.7, 9), used(21, 0.9, 9)])
    page = client.get(f"/evaluations/{found.pk}?show=odd").content.decode()
    first = links(page, found)[0]
    assert "/rollouts/21/0?" in first
    assert walk(client, first, "J") == ["20/0"]


def test_the_matrix_hands_on_its_examples(client: Client, user: User, evaluation: Evaluation) -> None:
    other = create_hosted(user, num_examples=5, rollouts_per_example=3)
    start(other)
    store(other, [make_record(example, 0, 0.0) for example in range(5)])
    page = client.get(f"/evaluations/compare?a={evaluation.pk}&b={other.pk}&only=regressions").content.decode()
    assert {link.partition("?")[2] for link in links(page, other)} == {"among=0-1,3-4&sort=example".replace(",", "%2C")}
    assert walk(client, links(page, other)[0], "n")[-1] == "4/0"


def test_the_next_failed_one_is_looked_for_in_the_list_and_its_order(client: Client, evaluation: Evaluation) -> None:
    address = f"/evaluations/{evaluation.pk}/rollouts"
    assert walk(client, f"{address}/0/0", "n") == ["1/0", "2/0", "2/1", "3/2", "4/2"]
    assert walk(client, f"{address}/0/0?outcome=ok&sort=-reward", "n") == ["2/1", "2/0", "1/0"]
    assert walk(client, f"{address}/3/0?example=3&sort=example", "n") == ["3/2"]


@pytest.mark.parametrize("sort", Sort)
def test_the_key_of_a_position_orders_as_the_list_does(evaluation: Evaluation, sort: Sort) -> None:
    rows = list(RolloutIndex.objects.filter(evaluation=evaluation))
    listed = first_rows(RolloutIndex.objects.filter(evaluation=evaluation), sort, "", 100)
    assert sorted(rows, key=lambda row: position(row, sort)) == listed


def test_chosen_rollouts_are_written_short_and_read_again(evaluation: Evaluation) -> None:
    assert written([3, 7, 10, 11, 12]) == "3,7,10-12"
    rows = RolloutIndex.objects.filter(evaluation=evaluation).order_by("example", "rollout")
    assert [str(row) for row in rows.filter(chosen("1,3.2,4.1"))] == ["1.0", "1.1", "3.2", "4.1"]
    assert [str(row) for row in rows.filter(chosen("1-2"))] == ["1.0", "1.1", "2.0", "2.1"]


@pytest.mark.parametrize("text", ["x", "1,", "1.", "0-1000", "-1", "1-2-3"])
def test_other_texts_are_refused(client: Client, evaluation: Evaluation, text: str) -> None:
    with pytest.raises(Invalid):
        chosen(text)
    assert client.get(f"/evaluations/{evaluation.pk}", {"among": text}).status_code == 422
