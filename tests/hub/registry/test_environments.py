"""Environments over HTTP: lists, search, visibility, patches, and what a page costs."""

from __future__ import annotations

import pytest
from pytest_django import DjangoAssertNumQueries

from hub.accounts.models import User
from hub.registry.models import Environment
from hub.registry.queries import get_version
from hub.registry.services import count_evaluations
from tests.factories.accounts import make_token, make_user
from tests.factories.registry import create_environments, push_version
from tests.hub.registry.api_client import call

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def names(user: User | None, query: str = "") -> list[str]:
    return [item["name"] for item in call(user, "get", f"environments{query}").json()["items"]]


def test_a_list_shows_what_is_public_and_ones_own(alice: User) -> None:
    push_version(alice, "open-env")
    push_version(alice, "closed-env", private=True)
    assert names(None) == names(make_user()) == ["open-env"]
    assert names(alice) == ["closed-env", "open-env"]


def test_a_private_environment_is_absent_for_others(alice: User) -> None:
    push_version(alice, private=True)
    base = "environments/alice/tiny-env"
    tails = ["", "/versions", "/versions/latest", "/versions/0.1.0/files", "/versions/0.1.0/download/wheel"]
    for tail in tails:
        hidden, absent = call(make_user(), "get", base + tail), call(make_user(), "get", f"environments/alice/no{tail}")
        assert (hidden.status_code, absent.status_code) == (404, 404)
        assert hidden.json()["error"]["code"] == absent.json()["error"]["code"]
        assert call(None, "get", base + tail).status_code == 404
        assert call(alice, "get", base + tail).status_code in {200, 302}


def test_the_search_finds_words_in_name_description_and_tags(alice: User) -> None:
    push_version(alice, "reverse-text", pyproject='[tool.envhub]\ntags = ["Strings", "easy"]')
    push_version(alice, "word-count")
    assert names(None, "?search=REVERSE") == ["reverse-text"]
    assert names(None, "?search=strings+alice") == ["reverse-text"]
    assert names(None, "?search=small+environment") == ["word-count", "reverse-text"]
    assert names(None, "?search=strings+count") == []
    assert names(None, "?search=100%25") == []


def test_a_list_is_narrowed_to_an_owner(alice: User) -> None:
    push_version(alice, "alices-env")
    push_version(make_user("bob"), "bobs-env")
    assert names(None, "?owner=bob") == ["bobs-env"]


def test_pages_follow_each_other_without_gaps(alice: User) -> None:
    create_environments(alice.owner, 5)
    seen, path = [], "environments?limit=2"
    while path:
        page = call(None, "get", path).json()
        seen += [item["name"] for item in page["items"]]
        path = (page["next"] or "").partition("/api/v1/")[2]
    assert seen == ["env-4", "env-3", "env-2", "env-1", "env-0"]


def test_the_tags_and_the_description_come_from_the_latest_version(alice: User) -> None:
    push_version(alice, pyproject='[tool.envhub]\ntags = ["math"]')
    push_version(alice, version="0.2.0", pyproject='[project]\ntags = ["train", "eval"]')
    shown = call(None, "get", "environments/alice/tiny-env").json()
    assert (shown["tags"], shown["description"]) == (["train", "eval"], "A small environment.")


def test_visibility_and_description_can_be_changed(alice: User) -> None:
    push_version(alice)
    patch = {"visibility": "private", "description": "Mine alone"}
    shown = call(alice, "patch", "environments/alice/tiny-env", patch).json()
    assert (shown["visibility"], shown["description"]) == ("private", "Mine alone")
    assert call(None, "get", "environments/alice/tiny-env").status_code == 404
    assert names(alice, "?search=alone") == ["tiny-env"]


def test_a_patch_with_an_unknown_field_is_refused(alice: User) -> None:
    push_version(alice)
    answer = call(alice, "patch", "environments/alice/tiny-env", {"visible": "no"})
    assert (answer.status_code, list(answer.json()["error"]["fields"])) == (422, ["visible"])


def test_the_number_of_evaluations_never_falls_below_zero(alice: User) -> None:
    push_version(alice)
    environment = Environment.objects.get()
    for change, expected in ((1, 1), (1, 2), (-1, 1), (-1, 0), (-1, 0)):
        same = {"environment_id": environment.pk, "owner_id": alice.owner.pk, "visibility": "private"}
        count_evaluations(**same, change=change)
        assert call(alice, "get", "environments/alice/tiny-env").json()["evaluations"] == expected


def test_a_reference_names_a_version(alice: User) -> None:
    push_version(alice)
    push_version(alice, version="0.2.0")
    found = [get_version(alice, f"alice/tiny-env{tail}").version for tail in ("", "@latest", "@0.1.0")]
    assert found == ["0.2.0", "0.2.0", "0.1.0"]


def test_lists_cost_the_same_however_long(alice: User, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    for number in range(6):
        push_version(alice, f"env-{number}")
        push_version(alice, "many-env", f"0.{number}.0")
    secret = make_token(alice)
    with django_assert_max_num_queries(5):
        assert len(call(secret, "get", "environments?search=env&owner=alice").json()["items"]) == 7
    with django_assert_max_num_queries(4):
        assert len(call(secret, "get", "environments/alice/many-env/versions").json()["items"]) == 6
