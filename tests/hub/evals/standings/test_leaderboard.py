"""Models are ranked among those that were measured in the same way."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from envhub.protocol.evals.leaderboards import LeaderboardView

from hub.accounts.models import User
from hub.core.errors import NotFound
from hub.evals.models import Contender, Evaluation
from hub.evals.services import add_segment
from hub.evals.standings.leaderboard import Leaderboard, leaderboard
from hub.registry.models import Environment
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.evals import (
    create_hosted,
    create_pushed,
    make_failure,
    make_record,
    make_records,
    make_segment,
    store,
    succeed,
)
from tests.factories.registry import create_ready_version

pytestmark = pytest.mark.django_db
PAGE = "/environments/ada/tiny-env/evaluations"
API = "/api/v1/environments/ada/tiny-env/leaderboard"


@pytest.fixture
def ada() -> User:
    return make_user("ada")


@pytest.fixture
def client(ada: User) -> Client:
    client = Client()
    client.force_login(ada)
    return client


def measured(user: User, model: str, *rewards: float, state: str = "succeeded", **settings: object) -> Evaluation:
    """One example for each reward."""
    found = create_hosted(user, **{"num_examples": len(rewards), "rollouts_per_example": 1, **settings})
    store(found, make_records(*((reward,) for reward in rewards)))
    if state == "succeeded":
        succeed(found, model_name=f"ada/{model}")
    else:
        Evaluation.objects.filter(pk=found.pk).update(model_name=f"ada/{model}", state=state)
    return found


def shown(user: User, key: str = "") -> Leaderboard:
    return leaderboard(user, Environment.objects.get(name="tiny-env"), key)


def models(board: Leaderboard) -> list[str]:
    return [place.view.model.removeprefix("ada/") for place in board.standings]


def test_models_are_ranked_by_their_latest_success(ada: User) -> None:
    measured(ada, "old", 1.0, 1.0)
    new, better = measured(ada, "old", 0.2, 0.4), measured(ada, "better", 0.6, 0.8)
    measured(ada, "better", 1.0, 1.0, state="failed")
    places = shown(ada).standings
    assert [(place.rank, place.row.pk) for place in places] == [(1, better.pk), (2, new.pk)]


def test_one_scored_example_has_no_rank(ada: User) -> None:
    measured(ada, "lucky", 1.0)
    assert [place.rank for place in shown(ada).standings] == [None]


@pytest.mark.parametrize(
    "other",
    [
        {"split": "train"},
        {"num_examples": 3},
        {"env_args": {"hard": True}},
        {"sampling": {"temperature": 0.2}},
        {"taskset": {"x": 1}},
        {"judges": {"judge": "ada/stub"}},
    ],
)
def test_what_was_measured_in_another_way_is_on_a_board_of_its_own(ada: User, other: dict[str, object]) -> None:
    measured(ada, "a", 0.1, 0.2)
    measured(ada, "b", 0.3, 0.4)
    measured(ada, "c", 0.9, 0.9, **other)
    board = shown(ada)
    assert models(board) == ["b", "a"]
    assert [item.models for item in board.settings] == [2, 1]
    assert models(shown(ada, board.settings[1].key)) == ["c"]


def test_the_newest_version_with_results_is_shown_first_however_many_models_an_older_one_has(ada: User) -> None:
    for model in ("a", "b", "c"):
        measured(ada, model, 0.1, 0.2)
    create_ready_version(ada, "tiny-env", "0.2.0")
    for number in range(2):
        measured(ada, "d", 0.3, 0.4, sampling={"temperature": 0.1 * number})
    create_ready_version(ada, "tiny-env", "0.3.0")
    assert models(shown(ada)) == ["d"]
    assert [item.version for item in shown(ada).settings] == ["0.2.0", "0.2.0", "0.1.0"]


def test_another_version_is_another_board(ada: User) -> None:
    measured(ada, "a", 0.1, 0.2)
    create_ready_version(ada, "tiny-env", "0.2.0")
    measured(ada, "b", 0.3, 0.4)
    assert [item.version for item in shown(ada).settings] == ["0.2.0", "0.1.0"]  # of equally many the newest
    assert models(shown(ada)) == ["b"]


@pytest.mark.parametrize(
    "same",
    [
        {"rollouts_per_example": 4},
        {"concurrency": 2},
        {"seed": 5},
        {"timeout_s": 1.0},
        {"sampling": {"n": 1, "max_tokens": None, "extra_body": {}}},  # vf-eval writes this without being asked
    ],
)
def test_what_changes_no_expected_score_keeps_a_model_on_the_board(ada: User, same: dict[str, object]) -> None:
    measured(ada, "a", 0.1, 0.2)
    measured(ada, "b", 0.3, 0.4, **same)
    assert models(shown(ada)) == ["b", "a"]


def test_of_as_many_models_the_settings_of_most_evaluations_are_shown(ada: User) -> None:
    measured(ada, "a", 0.1, 0.2)
    measured(ada, "a", 0.3, 0.4)
    measured(ada, "a", 0.9, 0.9, env_args={"tried": "once"})
    assert [place.reward.mean for place in shown(ada).standings] == [pytest.approx(0.35)]


def test_all_examples_are_as_many_as_there_are(ada: User) -> None:
    measured(ada, "a", 0.1, 0.2)
    whole = create_hosted(ada, num_examples=-1, rollouts_per_example=1)
    found = make_segment(make_records((0.3,), (0.4,))).model_copy(update={"total_rollouts": 2})  # as its worker says
    add_segment(evaluation=whole, request=found, trusted=True)
    succeed(whole, model_name="ada/b")
    assert models(shown(ada)) == ["b", "a"]


def test_settings_are_said_in_words(ada: User) -> None:
    measured(ada, "a", 0.1, 0.2, split="train", sampling={"temperature": 0.5}, env_args={"text": "x" * 500})
    (settings,) = shown(ada).settings
    assert settings.title.startswith('0.1.0 · 2 examples · split train · env_args text="xxx')
    assert settings.title.endswith("… · sampling temperature=0.5")
    assert settings.values["env_args"] == {"text": "x" * 500}


def test_what_has_no_score_or_was_hidden_ranks_nowhere(ada: User) -> None:
    hidden = make_user("mallory")
    create_ready_version(ada)
    failed = create_hosted(ada)
    store(failed, [make_failure()])
    succeed(failed)
    pushed = create_pushed(hidden, "ada/tiny-env")
    store(pushed, [make_record()])
    succeed(pushed)
    assert shown(ada) == Leaderboard(None, (), ())
    assert len(shown(hidden).standings) == 1


def test_settings_that_nobody_measured_are_not_found(ada: User, client: Client) -> None:
    measured(ada, "a", 0.1, 0.2)
    with pytest.raises(NotFound):
        shown(ada, "0" * 12)
    assert client.get(f"{PAGE}?settings=\x00<b>").status_code == 404


def test_the_page_says_the_settings_and_offers_the_others(ada: User, client: Client) -> None:
    first = measured(ada, "a", 0.1, 0.2)
    assert "<select" not in client.get(PAGE).content.decode()
    measured(ada, "b", 0.3, 0.4, split="train")
    board = client.get(PAGE).context["board"]
    reply = client.get(f"{PAGE}?settings={board.settings[1].key}")
    assert board.standings[0].row.pk == first.pk
    assert models(reply.context["board"]) == ["b"]
    assert "split train" in reply.content.decode()


def test_the_api_answers_what_the_page_shows(ada: User, client: Client) -> None:
    measured(ada, "a", 0.1, 0.2)
    best = measured(ada, "b", 0.3, 0.4)
    found = LeaderboardView.model_validate_json(client.get(API, headers=bearer(make_token(ada))).content)
    assert [(place.rank, place.evaluation.model) for place in found.standings] == [(1, "ada/b"), (2, "ada/a")]
    assert (found.standings[0].evaluation.id, found.standings[0].examples) == (str(best.pk), 2)
    assert found.shown == found.settings[0]
    assert client.get(f"{API}?settings=nothing", headers=bearer(make_token(ada))).status_code == 404


def test_an_early_evaluation_is_ranked_however_many_came_after_it(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("queries", "standings.leaderboard"):
        monkeypatch.setattr(f"hub.evals.{module}.MOST_CONTENDERS", 2)
    best = measured(ada, "best", 0.9, 1.0)
    for _ in range(3):
        measured(ada, "rest", 0.1, 0.2)
    board = shown(ada)
    assert models(board) == ["best", "rest"]
    assert board.standings[0].row == best
    assert board.newest_only is None
    measured(ada, "other", 0.1, 0.2, split="train")
    assert shown(ada).more_settings
    assert models(shown(ada, best_key(best))) == ["best", "rest"]


def best_key(evaluation: Evaluation) -> str:
    return Evaluation.objects.get(pk=evaluation.pk).board


def test_an_evaluation_that_is_resumed_is_ranked_by_what_it_has_then(ada: User) -> None:
    partial = create_hosted(ada, num_examples=-1, rollouts_per_example=1)
    assert add_segment(evaluation=partial, request=make_segment([make_failure()]), trusted=True) == 1
    assert Evaluation.objects.get(pk=partial.pk).board == ""
    counted = make_segment([make_record(example, 0, 0.5) for example in range(2)])
    add_segment(evaluation=partial, request=counted.model_copy(update={"total_rollouts": 2}), trusted=True)
    succeed(partial)
    measured(ada, "other", 0.1, 0.2)
    assert len(shown(ada).standings) == 2


def test_of_more_models_than_are_ranked_those_evaluated_last_are_and_it_is_said(
    ada: User, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hub.evals.standings.leaderboard.MOST_RANKED", 2)
    for model in ("a", "b", "a"):
        measured(ada, model, 0.1, 0.2)
    assert shown(ada).newest_only is None
    assert "most recently evaluated" not in client.get(PAGE).content.decode()
    measured(ada, "c", 0.1, 0.2)
    assert models(shown(ada)) == ["a", "c"]
    assert "only the 2 most recently evaluated models" in client.get(PAGE).content.decode()
    found = LeaderboardView.model_validate_json(client.get(API, headers=bearer(make_token(ada))).content)
    assert found.newest_only == 2


def test_settings_that_are_not_offered_are_found_by_their_key(
    ada: User, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hub.evals.standings.leaderboard.MOST_BOARDS", 1)
    rare = measured(ada, "rare", 0.1, 0.2, seed=1, split="train")
    assert not shown(ada).more_settings
    for model in ("a", "b"):
        measured(ada, model, 0.1, 0.2)
    board = shown(ada)
    assert (len(board.settings), board.more_settings, models(board)) == (1, True, ["a", "b"])
    asked = shown(ada, Evaluation.objects.get(pk=rare.pk).board)
    assert (asked.shown, models(asked)) == (asked.settings[1], ["rare"])
    assert (
        "Only settings of the newest versions are listed"
        in client.get(f"{PAGE}?settings={asked.shown.key}").content.decode()
    )


def test_evaluations_from_before_are_ranked_by_the_migration(ada: User) -> None:
    scored = measured(ada, "a", 0.1, 0.2)
    unscored = create_hosted(ada)
    keys = {row.pk: row.board for row in Evaluation.objects.all()}
    Evaluation.objects.update(board="")
    import_module("hub.evals.migrations.0004_fill_board").fill(apps, None)
    assert {row.pk: row.board for row in Evaluation.objects.all()} == keys
    assert [bool(keys[row.pk]) for row in (scored, unscored)] == [True, False]


def test_contenders_of_before_are_made_by_the_migration(ada: User) -> None:
    for model in ("a", "b", "a"):
        measured(ada, model, 0.1, 0.2)
    measured(ada, "c", 0.5, 0.5, state="failed")
    before, ranked = models(shown(ada)), set(Evaluation.objects.filter(contender__isnull=False))
    counts = sorted(Contender.objects.values_list("model_name", "evaluations", "newest"))
    Contender.objects.all().delete()
    Evaluation.objects.update(contender=None)
    for _ in range(2):  # begun again it counts nothing twice
        import_module("hub.evals.migrations.0014_fill_contenders").fill(apps, None)
    assert models(shown(ada)) == before
    assert sorted(Contender.objects.values_list("model_name", "evaluations", "newest")) == counts
    assert set(Evaluation.objects.filter(contender__isnull=False)) == ranked


def test_its_queries_do_not_grow_with_the_evaluations(ada: User) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as asked:
            shown(ada)
        return len(asked)

    measured(ada, "a", 0.1, 0.2)
    first = queries()
    for number in range(5):
        measured(ada, f"m{number}", 0.1, 0.2, seed=number)
        measured(ada, "a", 0.1, 0.2, env_args={"n": number})
    assert queries() == first


def test_a_model_that_solves_all_has_a_bound_instead_of_an_error(ada: User, client: Client) -> None:
    best, alike = measured(ada, "best", *[1.0] * 20), measured(ada, "alike", *[0.25] * 20)
    page = client.get(PAGE).text
    assert "≥ 0.861" in page
    assert page.count("all alike") == 2  # on the board and in the list
    assert "≥ 0.861" in client.get(f"/evaluations/{best.pk}").text
    assert "for rewards from 0 to 1" not in client.get(f"/evaluations/{alike.pk}").text
