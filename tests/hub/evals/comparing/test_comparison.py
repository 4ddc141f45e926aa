"""Paired differences, with numbers worked by hand."""

from __future__ import annotations

import math

import pytest
from django.test import Client

from hub.evals.comparing.paired import ExampleMeans, compare, difference, student_t
from hub.evals.comparing.view import Order, arrows, ordered, spread
from hub.evals.models import Evaluation
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.evals import create_hosted, create_pushed, make_record, make_records, start, store


def _means(*rewards: float, digest: str = "", content: str = "") -> dict[int, ExampleMeans]:
    return {
        g: ExampleMeans(digest=digest, content=content, reward=reward, metrics={"exact": reward})
        for g, reward in enumerate(rewards)
    }


def test_the_error_is_that_of_the_paired_differences() -> None:
    found = compare(_means(0.0, 0.2, 1.0), _means(0.5, 0.4, 1.0)).reward
    assert found is not None
    assert (found.a, found.b) == (pytest.approx(0.4), pytest.approx(1.9 / 3))
    assert found.mean == pytest.approx(0.7 / 3)  # of 0.5, 0.2, 0
    variance = ((0.5 - 0.7 / 3) ** 2 + (0.2 - 0.7 / 3) ** 2 + (0.7 / 3) ** 2) / 2
    assert found.std_error == pytest.approx(math.sqrt(variance / 3))


def test_what_is_hard_for_both_does_not_count_as_noise() -> None:
    found = compare(_means(0.0, 0.5, 0.9), _means(0.1, 0.61, 0.99)).reward
    assert found is not None
    assert found.std_error == pytest.approx(0.01 / math.sqrt(3))
    assert found.is_clear


@pytest.mark.parametrize(("examples", "clear"), [(2, False), (5, False), (6, True)])  # 2 * 0.5^6 = 0.03
def test_equal_differences_are_clear_when_a_sign_test_says_so(examples: int, clear: bool) -> None:
    for before, after in ((0.0, 1.0), (0.1, 0.4), (1.0, 0.0)):
        found = difference("reward", [(before, after)] * examples)
        assert found.std_error == pytest.approx(0.0, abs=1e-9)
        assert found.is_clear is clear


def test_examples_without_any_difference_are_never_clear() -> None:
    assert not difference("reward", [(0.5, 0.5)] * 100).is_clear


def test_one_example_has_no_error() -> None:
    found = difference("reward", [(0.2, 0.8)])
    assert (found.std_error, found.is_clear) == (None, False)


def test_examples_of_one_side_and_changed_rows_are_left_out_and_counted() -> None:
    left = _means(0.1, 0.2, 0.3, digest="x")
    right = {1: left[1], 2: ExampleMeans(digest="y", content="", reward=0.9, metrics={}), 7: left[0]}
    found = compare(left, right)
    assert [pair.example for pair in found.pairs] == [1]
    assert (found.only_a, found.only_b, found.other_row) == (1, 1, 1)


@pytest.mark.parametrize(("content", "by_content", "pairs"), [("p", True, 2), ("p", False, 0), ("", True, 0)])
def test_rows_of_one_prompt_and_answer_are_the_same_only_where_no_more_is_known(
    content: str, by_content: bool, pairs: int
) -> None:
    rows, saved = _means(0.5, 0.5, digest="row", content=content), _means(1.0, 1.0, digest="saved", content=content)
    found = compare(rows, saved, by_content=by_content)
    assert (len(found.pairs), found.other_row) == (pairs, 2 - pairs)


def test_nothing_in_common_is_no_difference() -> None:
    found = compare(_means(0.5), {})
    assert (found.reward, found.metrics, found.pairs, spread(found)) == (None, (), (), None)


@pytest.mark.parametrize(
    ("freedom", "point"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (10, 2.228), (11, 2.201)]
)
def test_the_interval_is_students(freedom: int, point: float) -> None:
    assert student_t(freedom) == pytest.approx(point, rel=0.0005)


def test_the_spread_is_symmetric_and_loses_no_example() -> None:
    found = spread(compare(_means(0.0, 0.5, 0.5, 1.0), _means(1.0, 0.5, 0.5, 0.0)))
    assert found is not None
    assert (found.ticks[0], found.ticks[2], found.ticks[4]) == (-1.0, 0.0, 1.0)
    assert [bar.count for bar in found.bins if bar.count] == [1, 2, 1]
    assert found.bins[10].count == 2


def test_bars_begin_at_nought_and_counts_get_none() -> None:
    up, calls = arrows([difference("up", [(0.0, 0.5)] * 6), difference("calls", [(1.0, 9.0), (2.0, 9.0)])])
    assert (up.x, up.fits, up.tone) == (50.0, True, "good")
    assert calls.fits is False


def test_examples_are_ordered_by_who_is_ahead() -> None:
    pairs = compare(_means(0.5, 0.5, 0.5), _means(0.4, 0.9, 0.5)).pairs
    assert [pair.example for pair in ordered(pairs, Order.BETTER)] == [1, 2, 0]
    assert [pair.example for pair in ordered(pairs, Order.WORSE)] == [0, 2, 1]


def _evaluated(*rewards: tuple[float, ...], user: object = None, name: str = "tiny-env") -> Evaluation:
    found = create_hosted(user, name=name)  # type: ignore[arg-type]
    start(found)
    store(found, make_records(*rewards))
    return found


@pytest.fixture
def client_of_ada(db: None) -> tuple[Client, object]:
    user, client = make_user("ada"), Client()
    client.force_login(user)
    return client, user


def test_the_page_compares_what_is_stored(client_of_ada: tuple[Client, object]) -> None:
    client, user = client_of_ada
    a, b = (_evaluated(*rewards, user=user) for rewards in (((0.0, 1.0), (0.0, 0.0)), ((1.0, 1.0), (0.5, 0.5))))
    reply = client.get(f"/evaluations/compare?a={a.pk}&b={b.pk}")
    assert reply.context["found"].reward.mean == pytest.approx(0.5)
    assert [(pair.example, pair.difference) for pair in reply.context["found"].pairs] == [(0, 0.5), (1, 0.5)]
    assert f"/evaluations/{b.pk}/rollouts/1/0" in reply.content.decode()


def test_equal_differences_have_no_interval(client_of_ada: tuple[Client, object]) -> None:
    client, user = client_of_ada
    found = [_evaluated((reward,), (reward,), user=user) for reward in (0.0, 1.0, 0.5)]
    sides = f"a={found[0].pk}&b={found[1].pk}"
    two = client.get(f"/evaluations/compare?{sides}").text
    assert "the same on all 2 examples, so no interval; p 0.500" in two
    assert "+1.000 to" not in two
    for path in (f"compare?{sides}&b={found[2].pk}", f"compare/report?{sides}"):
        page = client.get(f"/evaluations/{path}").text
        assert ("all equal" in page, "+1.000 to" in page) == (True, False)


def test_two_that_share_no_example_still_have_a_page_with_their_settings(client_of_ada: tuple[Client, object]) -> None:
    client, user = client_of_ada
    a, b = _evaluated((1.0,), user=user), create_hosted(user, split="train")  # type: ignore[arg-type]
    reply = client.get(f"/evaluations/compare?a={a.pk}&b={b.pk}")
    assert reply.status_code == 200
    page = reply.content.decode()
    assert "No common examples" in page
    assert "Settings that differ" in page
    assert "<b>1.000</b><span>over all of its examples" in page
    assert "hub eval run ada/tiny-env@0.1.0 -m ada/stub" in page
    swapped = client.get(f"/evaluations/compare?a={b.pk}&b={a.pk}").content.decode()
    assert "hub eval run ada/tiny-env@0.1.0 -m ada/stub -n 2 -r 2 --split train" in swapped


@pytest.mark.parametrize(("question", "pairs"), [("question 0", 1), ("another", 0)])
def test_a_pushed_result_is_compared_with_a_hosted_one_by_prompt_and_answer(
    client_of_ada: tuple[Client, object], question: str, pairs: int
) -> None:
    client, user = client_of_ada
    a, b = _evaluated((1.0,), user=user), create_pushed(user, "ada/tiny-env")  # type: ignore[arg-type]
    prompt = [{"role": "user", "content": [{"type": "text", "text": question}]}]
    store(b, [make_record(example_hash="f" * 64, prompt=prompt)])
    reply = client.get(f"/evaluations/compare?a={a.pk}&b={b.pk}")
    assert len(reply.context["found"].pairs) == pairs
    assert ("prompt or answer differs" in reply.content.decode()) is not bool(pairs)


def test_two_hosted_ones_are_compared_by_their_rows(client_of_ada: tuple[Client, object]) -> None:
    client, user = client_of_ada
    a, b = _evaluated((1.0,), user=user), create_hosted(user, split="train")  # type: ignore[arg-type]
    start(b)
    store(b, [make_record(example_hash="f" * 64)])
    reply = client.get(f"/evaluations/compare?a={a.pk}&b={b.pk}")
    assert (reply.context["found"].pairs, reply.context["found"].other_row) == ((), 1)
    assert "the data sets have different rows" in reply.content.decode()


def test_two_environments_cannot_be_compared(client_of_ada: tuple[Client, object]) -> None:
    client, user = client_of_ada
    a, b = _evaluated((1.0,), user=user), _evaluated((1.0,), user=user, name="other-env")
    reply = client.get(f"/evaluations/compare?a={a.pk}&b={b.pk}")
    assert reply.status_code == 422
    assert "different environments" in reply.content.decode()


def test_a_hidden_evaluation_is_not_compared(client_of_ada: tuple[Client, object]) -> None:
    client, user = client_of_ada
    mine, hidden = _evaluated((1.0,), user=user), _evaluated((1.0,), user=make_user("mallory"))
    for query in (f"a={mine.pk}&b={hidden.pk}", f"a={hidden.pk}"):
        assert client.get(f"/evaluations/compare?{query}").status_code == 404


@pytest.mark.parametrize("query", ["a=1", "a=x&b=y"])
def test_an_address_that_names_none_is_explained(client_of_ada: tuple[Client, object], query: str) -> None:
    assert client_of_ada[0].get(f"/evaluations/compare?{query}").status_code == 422


def test_comparing_begins_at_the_list(client_of_ada: tuple[Client, object]) -> None:
    assert client_of_ada[0].get("/evaluations/compare").url == "/evaluations"  # type: ignore[attr-defined]


@pytest.fixture
def pair_of_ada(client_of_ada: tuple[Client, object]) -> tuple[Client, str]:
    """ada's client and the API's address of B, (1, 0.5), against A, (0.5, 0)."""
    client, user = client_of_ada
    a, b = (_evaluated(*rewards, user=user) for rewards in (((0.0, 1.0), (0.0, 0.0)), ((1.0, 1.0), (0.25, 0.25))))
    return client, f"/api/v1/evaluations/{a.pk}/compare/{b.pk}"


def test_the_api_answers_what_the_page_shows(
    client_of_ada: tuple[Client, object], pair_of_ada: tuple[Client, str]
) -> None:
    client, path = pair_of_ada
    _, _, _, _, a, _, b = path.split("/")
    shown = client.get(f"/evaluations/compare?a={a}&b={b}").context["found"].reward
    found = client.get(path, headers=bearer(make_token(client_of_ada[1]))).json()  # type: ignore[arg-type]
    assert (found["a"]["id"], found["b"]["id"]) == (a, b)
    assert found["reward"]["mean"] == shown.mean == pytest.approx(0.375)
    assert found["reward"]["std_error"] == shown.std_error == pytest.approx(0.125)
    assert (found["reward"]["low"], found["reward"]["high"]) == (shown.low, shown.high)
    assert (found["examples"], found["better"], found["worse"]) == (2, 2, 0)
    assert [metric["name"] for metric in found["metrics"]] == ["exact"]


def test_the_api_lists_the_examples_that_were_asked_for(
    client_of_ada: tuple[Client, object], pair_of_ada: tuple[Client, str]
) -> None:
    client, path = pair_of_ada
    headers = bearer(make_token(client_of_ada[1]))  # type: ignore[arg-type]
    pairs = client.get(f"{path}?sort=worse&limit=1", headers=headers).json()["pairs"]
    assert pairs == [{"example": 1, "a": 0.0, "b": 0.25, "difference": 0.25}]
    for query in ("limit=1001", "limit=-1", "sort=best", "sorted=worse"):
        assert client.get(f"{path}?{query}", headers=headers).status_code == 422


def test_the_api_hides_what_the_page_hides(client_of_ada: tuple[Client, object]) -> None:
    _, user = client_of_ada
    mine, hidden = _evaluated((1.0,), user=user), _evaluated((1.0,), user=make_user("mallory"))
    headers = bearer(make_token(user))  # type: ignore[arg-type]
    for a, b in ((mine, hidden), (hidden, mine)):
        assert Client().get(f"/api/v1/evaluations/{a.pk}/compare/{b.pk}", headers=headers).status_code == 404
