"""The search over everything: what it finds, for whom, at what cost."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import Client
from envhub.protocol.visibility import Visibility

from hub.evals.models import Evaluation
from hub.web.finding import find
from tests.factories.accounts import make_owner, make_user
from tests.factories.registry import create_environments
from tests.hub.web.showcase import Showcase, make_showcase

pytestmark = pytest.mark.django_db


@pytest.fixture
def showcase() -> Showcase:
    return make_showcase(examples=6)


def titles(user: Any, words: str) -> dict[str, list[str]]:
    return {group.title: [hit.title for hit in group.hits] for group in find(user, words)}


def test_each_kind_is_found_by_its_words(showcase: Showcase) -> None:
    owner = showcase.user.username
    assert titles(showcase.user, "calculator-tool")["Environments"] == [f"{owner}/calculator-tool"]
    found = titles(showcase.user, f"{showcase.ended.model_name} CALCULATOR")
    assert found["Evaluations"]
    assert titles(showcase.user, "entropy")["Documentation"]
    assert titles(showcase.user, "new training")["Go to"] == ["New training run"]
    assert titles(showcase.user, "xyzzy") == {}
    assert titles(showcase.user, "settings pass")["Go to"] == ["Settings: password"]
    assert "Go to" not in titles(showcase.user, "word")


def test_an_environment_can_be_evaluated_from_here(showcase: Showcase) -> None:
    title = f"Evaluate {showcase.user.username}/calculator-tool"
    for words in ("calculator-tool", "eval calculator"):
        (hit, *_) = next(group.hits for group in find(showcase.user, words) if group.title == "Evaluate")
        assert (hit.title, hit.url) == (title, f"/environments/{title.removeprefix('Evaluate ')}/evaluate")
    assert "Evaluate" not in titles(AnonymousUser(), "calculator-tool")
    assert "Evaluate" not in titles(showcase.user, "broken-env")  # it has no ready version


def test_users_and_teams_are_found_by_who_may_see_something_of_them(showcase: Showcase) -> None:
    hidden = make_owner("quiet-team", members=[showcase.user])
    create_environments(hidden, 1, private=True)
    assert titles(showcase.user, "quiet")["Users and teams"] == ["quiet-team"]
    assert "Users and teams" not in titles(AnonymousUser(), "quiet")
    create_environments(make_owner("quiet-lab"), 1)
    assert titles(AnonymousUser(), "quiet")["Users and teams"] == ["quiet-lab"]


def test_places_are_those_that_the_user_may_go_to(showcase: Showcase) -> None:
    own = {"New environment", "Notifications", "Settings: webhooks", "Settings: share links", "Deployments"}
    assert own <= set(titles(showcase.user, "")["Go to"])
    assert "Go to" not in titles(showcase.user, "administration")
    root = make_user("root-user", is_superuser=True)
    assert "Administration: queue" in titles(root, "administration")["Go to"]
    client = Client()
    client.force_login(root)
    assert [hit for hit in find(root, "")[0].hits if client.get(hit.url, follow=True).status_code != 200] == []


def test_an_evaluation_is_found_by_what_its_id_begins_with(showcase: Showcase) -> None:
    (group, *_) = find(showcase.user, str(showcase.ended.pk)[:13])
    assert group.title == "By id"
    assert f"/evaluations/{showcase.ended.pk}" in {hit.url for hit in group.hits}
    assert find(showcase.user, str(showcase.ended.pk))[0].hits[0].url == f"/evaluations/{showcase.ended.pk}"


def test_evaluations_of_one_name_are_told_apart_by_their_time(showcase: Showcase) -> None:
    (group,) = (one for one in find(showcase.user, "calculator") if one.title == "Evaluations")
    assert f"{showcase.ended.created_at:%Y-%m-%d %H:%M} UTC" in "".join(hit.about for hit in group.hits)


def test_others_find_nothing_private(showcase: Showcase) -> None:
    (hidden,) = create_environments(showcase.user.owner, 1, private=True)
    Evaluation.objects.filter(pk=showcase.ended.pk).update(visibility=Visibility.PRIVATE.value)
    words = (hidden.name, str(showcase.ended.pk), str(showcase.ended.run_id))
    assert all(titles(showcase.user, one) for one in words)
    for stranger in (make_user("stranger"), AnonymousUser()):
        assert [set(titles(stranger, one)) - {"Documentation"} for one in words] == [set(), set(), set()]


def test_without_words_it_says_where_to_go_and_strangers_have_no_settings(showcase: Showcase) -> None:
    assert "Settings: secrets" in titles(showcase.user, " ")["Go to"]
    assert "Settings: secrets" not in titles(AnonymousUser(), "")["Go to"]


def test_queries_do_not_grow_with_what_is_found(showcase: Showcase, django_assert_max_num_queries: Any) -> None:
    with django_assert_max_num_queries(14):
        assert find(showcase.user, "a")


def test_the_page_and_the_box_show_the_same(showcase: Showcase) -> None:
    client = Client()
    client.force_login(showcase.user)
    page = client.get("/search", {"q": "calc"}).content.decode()
    box = client.get("/search", {"q": "calc"}, headers={"hx-request": "true", "hx-target": "palette"}).content.decode()
    assert "<html" in page
    assert box.strip().startswith('<div id="palette"')
    assert box.strip() in page
    assert "Nothing matches" in client.get("/search", {"q": "<b>xyzzy"}).content.decode()
