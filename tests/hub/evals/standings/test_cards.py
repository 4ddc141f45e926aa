"""Cards of environments: what lists say of the best model and of the newest evaluations, for each sort of viewer."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone
from envhub.protocol.runs import RunState
from envhub.protocol.visibility import Visibility
from pytest_django import DjangoAssertNumQueries

from hub.accounts.models import User
from hub.evals.models import Evaluation
from hub.evals.services import create_evaluation, delete_evaluation, share_evaluation
from hub.evals.standings.cards import refresh_cards
from hub.registry.cards import Card, card_of
from hub.registry.models import Environment
from hub.runs.services.finishing import end_attempt
from tests.factories.accounts import make_user
from tests.factories.catalog import create_endpoint
from tests.factories.evals import make_config, make_records, store
from tests.factories.registry import create_environments, create_ready_version
from tests.factories.runs import hold_run

pytestmark = pytest.mark.django_db
DESCRIBED = {
    "env_class": "SandboxEnv",
    "splits": {"eval": {"size": 200, "rows": []}, "train": {"size": 9, "rows": []}},
    "tools": [{"name": "run"}],
}


@pytest.fixture
def alice() -> User:
    alice = make_user("alice")
    version = create_ready_version(alice, "tiny-env")
    version.describe = DESCRIBED
    version.save()
    for name in ("weak", "strong"):
        create_endpoint(alice, name)
    return alice


def measured(user: User, model: str, *rewards: list[float], **settings: object) -> Evaluation:
    """An evaluation that has ended, with these rewards of each example."""
    settings["rollouts_per_example"] = len(rewards[0])
    config = make_config("alice/tiny-env", f"alice/{model}", **settings)
    evaluation = create_evaluation(user=user, owner=user.owner, config=config)
    assert evaluation.run is not None
    hold_run(evaluation.run, state=RunState.RUNNING)
    store(evaluation, make_records(*rewards))
    end_attempt(run=evaluation.run, to=RunState.SUCCEEDED, now=timezone.now())
    return evaluation


def card(*, is_member: bool) -> Card:
    refresh_cards()
    assert refresh_cards() == 0
    return card_of(Environment.objects.get(name="tiny-env"), is_member=is_member)


def test_a_card_shows_the_best_model_and_the_course_to_those_who_may_see_them(alice: User) -> None:
    for model, rewards in (("weak", [0.0, 1.0]), ("strong", [1.0, 0.5])):
        measured(alice, model, rewards)
    own = card(is_member=True)
    assert (own.model, own.score, own.means) == ("alice/strong", 0.75, (0.5, 0.75))
    assert card(is_member=False) == Card()
    weak, strong = Evaluation.objects.order_by("pk")
    share_evaluation(user=alice, evaluation=weak, visibility=Visibility.PUBLIC)
    assert (card(is_member=False).model, card(is_member=False).means) == ("alice/weak", (0.5,))
    delete_evaluation(user=alice, evaluation=strong)
    assert card(is_member=True).model == "alice/weak"


def test_one_evaluation_with_other_settings_does_not_change_the_card(alice: User) -> None:
    measured(alice, "weak", [0.5], [0.5])
    measured(alice, "weak", [0.0], [0.0], env_args={"length": 6})
    found = card(is_member=True)
    assert (found.score, found.means) == (0.5, (0.5,))
    measured(alice, "strong", [0.25], [0.25], env_args={"length": 6})
    found = card(is_member=True)
    assert (found.model, found.score, found.means) == ("alice/strong", 0.25, (0.0, 0.25))


def test_a_page_is_narrowed_by_what_the_cards_know_and_counts_leak_nothing(alice: User, client: Client) -> None:
    measured(alice, "weak", [1.0, 0.0])
    create_environments(make_user("bob").owner, 3)
    create_environments(make_user("carl").owner, 2, private=True)
    refresh_cards()
    html = client.get("/environments").content.decode()
    assert "carl" not in html
    assert "Has a leaderboard" not in html
    assert "4 environments" in html
    for query in ("kind=tools", "sandbox=yes"):
        html = client.get(f"/environments?{query}").content.decode()
        assert "tiny-env" in html
        assert "200 examples" in html
        assert "env-0" not in html
    client.force_login(alice)
    html = client.get("/environments?leaderboard=yes").content.decode()
    assert "alice/weak" in html
    assert "1 environment<" in html or "1 environment ·" in html
    assert client.get("/environments?kind=odd").status_code == 422


def test_what_could_be_trained_on_comes_first_by_public_evaluations_alone(alice: User, client: Client) -> None:
    create_ready_version(alice, "other-env")
    Environment.objects.update(visibility=Visibility.PUBLIC.value)
    evaluation = measured(alice, "weak", [1.0, 0.0], [1.0, 1.0])

    def seen() -> tuple[float | None, float | None, int]:
        Environment.objects.update(card_stale=True)
        refresh_cards()
        row = Environment.objects.get(name="tiny-env")
        return card_of(row, is_member=True).signal, card_of(row, is_member=False).signal, row.signal

    share_evaluation(user=alice, evaluation=evaluation, visibility=Visibility.PRIVATE)
    members, everybody, stored = seen()
    assert (members or 0.0) > 0.4
    assert (everybody, stored) == (None, 0)
    share_evaluation(user=alice, evaluation=evaluation, visibility=Visibility.PUBLIC)
    assert seen() == (members, members, round(1000 * (members or 0.0)))
    html = client.get("/environments?sort=trainable").text
    assert html.index("tiny-env") < html.index("other-env")
    assert "with signal" in html


def test_an_environment_names_those_that_are_built_with_it_to_those_who_see_them(alice: User, client: Client) -> None:
    library, bob = Environment.objects.get(name="tiny-env"), make_user("bob")
    using, hidden = create_ready_version(bob, "using-env"), create_ready_version(alice, "hidden-env")
    for version in (using, hidden):
        assert library.latest is not None
        assert version.lock is not None
        owned = {**version.lock["wheels"][0], "sha256": library.latest.wheel_id, "owned": True}
        version.lock["wheels"].append(owned)
        version.save()
    Environment.objects.exclude(pk=hidden.environment_id).update(visibility=Visibility.PUBLIC.value)
    Environment.objects.filter(pk=hidden.environment_id).update(visibility=Visibility.PRIVATE.value)
    Environment.objects.update(card_stale=True)
    refresh_cards()
    address = "/environments/alice/tiny-env"
    assert ["bob/using-env" in client.get(address).text, "hidden-env" in client.get(address).text] == [True, False]
    client.force_login(alice)
    assert "alice/hidden-env" in client.get(address).text
    using.refresh_from_db()
    assert using.lock is not None
    using.lock["wheels"].pop()
    using.save()
    Environment.objects.update(card_stale=True)
    refresh_cards()
    assert "using-env" not in client.get(address).text


def test_a_page_of_many_environments_costs_no_more_queries(
    alice: User, client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    create_environments(alice.owner, 30)
    refresh_cards()
    client.force_login(alice)
    with django_assert_max_num_queries(10):
        client.get("/environments?sort=stars&limit=40")
