"""What other programs read of a page: its JSON, and what a chat shows of an address."""

from __future__ import annotations

import pytest
from django.test import Client
from envhub.protocol.visibility import Visibility

from hub.evals.models import Evaluation
from hub.registry.models import Environment
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, make_records, start, store

pytestmark = pytest.mark.django_db


@pytest.fixture
def evaluation() -> Evaluation:
    found = create_hosted(make_user("alice"), name="tiny-env")
    start(found)
    store(found, make_records([1.0, 0.0], [1.0, 1.0]))
    return found


def publish(evaluation: Evaluation) -> None:
    Evaluation.objects.filter(pk=evaluation.pk).update(visibility=Visibility.PUBLIC.value)
    Environment.objects.filter(pk=evaluation.environment_id).update(visibility=Visibility.PUBLIC.value)


def test_a_page_has_the_json_of_the_api_with_its_rights(evaluation: Evaluation) -> None:
    browser, address = Client(), f"/evaluations/{evaluation.pk}"
    assert browser.get(f"{address}?format=json", follow=True).status_code == 404
    browser.force_login(evaluation.created_by)
    html = browser.get(address).content.decode()
    assert f'<link rel="alternate" type="application/json" href="/api/v1{address}">' in html
    assert browser.get(f"{address}?format=json", follow=True).json()["id"] == str(evaluation.pk)
    listed = browser.get("/evaluations?format=json&environment=alice/tiny-env", follow=True)
    assert [one["id"] for one in listed.json()["items"]] == [str(evaluation.pk)]


def test_a_comparison_has_its_json_under_the_pages_own_parameters(evaluation: Evaluation) -> None:
    other = create_hosted(evaluation.created_by, name="tiny-env")
    start(other)
    store(other, make_records([0.0, 0.0], [1.0, 1.0]))
    browser = Client()
    browser.force_login(evaluation.created_by)
    answer = browser.get(f"/evaluations/compare?a={evaluation.pk}&b={other.pk}&format=json", follow=True).json()
    assert [one["id"] for one in answer["evaluations"]] == [str(evaluation.pk), str(other.pk)]


@pytest.mark.parametrize("address", ["/docs/numbers", "/search", "/alice", "/settings/tokens"])
def test_a_page_without_json_stays_a_page(address: str) -> None:
    browser = Client()
    browser.force_login(make_user("alice"))
    answer = browser.get(f"{address}?format=json")
    assert answer.status_code == 200
    assert "application/json" not in answer.content.decode()


def test_an_owner_with_the_name_of_a_part_of_the_api_has_a_page_of_their_own() -> None:
    browser = Client()
    browser.force_login(make_user("blobs"))
    assert "<h1" in browser.get("/blobs?format=json").content.decode()


def test_a_chat_shows_the_score_of_what_is_public_and_nothing_of_what_is_private(evaluation: Evaluation) -> None:
    address = f"/evaluations/{evaluation.pk}"
    private = Client().get(address).content.decode()
    assert "og:title" not in private
    assert "tiny-env" not in private
    publish(evaluation)
    public = Client().get(address).content.decode()
    assert '<meta property="og:title" content="alice/tiny-env on alice/stub">' in public
    assert '<meta property="og:description" content="Mean reward 0.750' in public
