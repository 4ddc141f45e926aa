"""Up to eight evaluations side by side: the matrix, its statistics, its pages and its API."""

from __future__ import annotations

import pytest
from django.test import Client

from hub.accounts.models import User
from hub.evals.comparing.matrix import MatrixRow, Only, Order, matrix, narrowed
from hub.evals.comparing.paired import ExampleMeans, difference
from hub.evals.comparing.significance import holm, p_value
from hub.evals.models import Evaluation
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.evals import create_hosted, make_records, start, store


def _means(*rewards: float, digest: str = "row") -> dict[int, ExampleMeans]:
    return {g: ExampleMeans(digest=digest, content="", reward=reward, metrics={}) for g, reward in enumerate(rewards)}


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ((1.0, 2.0, 3.0), 0.07418),  # t = 2 sqrt(3), 2 degrees of freedom: p = 1 - t / sqrt(t^2 + 2)
        ((1.0, 3.0), 0.29517),  # t = 2, 1 degree: p = 1 - 2 atan(t) / pi
        ((0.5,) * 6, 0.03125),  # equal: a sign test, 2 * 0.5^6
        ((0.0,) * 6, 1.0),
    ],
)
def test_the_p_value_is_students(differences: tuple[float, ...], p: float) -> None:
    assert p_value(difference("reward", [(0.0, one) for one in differences])) == pytest.approx(p, abs=1e-5)


def test_the_p_value_of_many_examples_is_almost_that_of_a_normal() -> None:
    found = difference("reward", [(0.0, 1.0), (0.0, -1.0)] * 5000 + [(0.0, 1.0)] * 196)
    assert p_value(found) == pytest.approx(0.052, abs=0.002)


@pytest.mark.parametrize(
    ("a", "b", "p", "low", "high"),
    [
        ([0.0, 0.5, 1.0], [1.0, 0.5, 1.0], 0.4226497308103743, -1.100884243249821, 1.7675509099164874),
        ([0.25, 0.5, 0.75, 1.0, 0.0], [0.5, 0.5, 1.0, 0.75, 0.75],
         0.2942563680244263, -0.26042133324799543, 0.6604213332479955),
        ([(i * 7 % 11) / 10 for i in range(11)], [(i * 5 % 11) / 10 for i in range(11)],
         0.9999999999999999, -0.29893619618097905, 0.29893619618097905),
        ([(i * 7 % 13) / 12 for i in range(40)], [(i * 5 % 13) / 12 + 0.05 * (i % 3) for i in range(40)],
         0.45695569052089474, -0.08248969123068928, 0.1799896912306893),
        ([float(i % 2) for i in range(200)], [float(i % 2 or i % 5 == 0) for i in range(200)],
         4.802226943133299e-06, 0.058063512060602306, 0.1419364879393977),
    ],
)  # fmt: skip
def test_p_values_and_intervals_are_those_of_scipy(
    a: list[float], b: list[float], p: float, low: float, high: float
) -> None:
    """Written down from scipy 1.17.1: `ttest_rel(b, a)`, its `pvalue` and `confidence_interval(0.95)`."""
    found = difference("reward", list(zip(a, b, strict=True)))
    assert p_value(found) == pytest.approx(p, rel=1e-6)
    assert (found.low, found.high) == pytest.approx((low, high), abs=2e-5)


def test_holm_multiplies_the_smallest_most_and_keeps_the_order() -> None:
    assert holm([0.01, None, 0.04, 0.03]) == [pytest.approx(0.03), None, pytest.approx(0.06), pytest.approx(0.06)]


def test_another_row_under_the_same_number_has_no_cell() -> None:
    found = matrix([_means(1.0, 0.0), _means(0.0, 0.5), _means(0.2, 0.3, 0.4, digest="another")], [True] * 3)
    assert [row.cells for row in found.rows] == [(1.0, 0.0, None), (0.0, 0.5, None)]
    assert (found.alone, found.other_row) == (1, 2)
    assert [test.name for test in found.tests] == ["B − A", "C − A", "C − B"]
    assert found.tests[1].found is None


def test_two_are_tested_on_their_own_rows_also_where_the_first_has_others() -> None:
    b, c = _means(0.0, 0.0, 0.5), _means(1.0, 1.0, 0.6)
    found = matrix([_means(1.0, 0.0, 1.0, digest="another"), b, c], [True] * 3).tests[2]
    assert found.found is not None
    assert (found.name, found.found.count, found.better) == ("C − B", 3, 3)
    unknown = matrix([_means(1.0, 1.0, 1.0, digest=""), b, _means(1.0, 1.0, 0.6, digest="others")], [False, True, True])
    assert unknown.tests[2].found is None


def test_what_was_fixed_or_broken_comes_first_and_regressions_alone_can_be_shown() -> None:
    rows = [MatrixRow(0, (0.1, 0.4)), MatrixRow(1, (0.4, 0.6)), MatrixRow(2, (0.9, 0.2)), MatrixRow(3, (0.9, 0.8))]
    assert [row.example for row in narrowed(rows, Only.ALL, Order.FLIPS)] == [2, 1, 0, 3]
    assert [row.example for row in narrowed(rows, Only.REGRESSIONS, Order.EXAMPLE)] == [2, 3]
    assert [row.example for row in narrowed(rows, Only.FLIPS, Order.BETTER)] == [1, 2]


def test_what_only_rounding_makes_is_no_difference() -> None:
    row = MatrixRow(0, (0.1 + 0.2, 0.3, None, 0.4))
    assert [row.difference(place) for place in (1, 2)] == [0.0, None]
    assert len(row.differences) == 2


@pytest.fixture
def ada(db: None) -> User:
    return make_user("ada")


@pytest.fixture
def client(ada: User) -> Client:
    found = Client()
    found.force_login(ada)
    return found


def _evaluated(user: User, *rewards: tuple[float, ...]) -> Evaluation:
    found = create_hosted(user)
    start(found)
    store(found, make_records(*rewards))
    return found


@pytest.fixture
def three(ada: User) -> list[Evaluation]:
    return [
        _evaluated(ada, (1.0,), (0.0,), (0.5,)),
        _evaluated(ada, (0.0,), (1.0,), (0.5,)),
        _evaluated(ada, (1.0,), (0.0,), (0.25,)),
    ]


def _address(rows: list[Evaluation]) -> str:
    return "&".join([f"a={rows[0].pk}", *(f"b={row.pk}" for row in rows[1:])])


def test_ticked_boxes_lead_to_the_matrix_with_the_oldest_first(client: Client, three: list[Evaluation]) -> None:
    ticked = "&".join(f"id={row.pk}" for row in reversed(three))
    reply = client.get(f"/evaluations/compare?{ticked}", follow=True)
    assert [side.evaluation.pk for side in reply.context["sides"]] == [row.pk for row in three]
    assert [shown.row.example for shown in reply.context["rows"]] == [0, 1, 2]


def test_the_page_of_three_shows_regressions_alone(client: Client, three: list[Evaluation]) -> None:
    reply = client.get(f"/evaluations/compare?{_address(three)}&only=regressions")
    assert [shown.row.example for shown in reply.context["rows"]] == [0, 2]
    assert "All pairs" in reply.content.decode()


def test_the_page_asks_as_much_for_many_examples_as_for_few(
    client: Client, ada: User, three: list[Evaluation], django_assert_max_num_queries: object
) -> None:
    more = [_evaluated(ada, *[(0.5, 1.0)] * 60) for _ in range(3)]
    with django_assert_max_num_queries(20):  # type: ignore[operator]
        reply = client.get(f"/evaluations/compare?{_address([*three, *more])}")
    assert len(reply.context["rows"]) == 50
    assert reply.context["next"].endswith("page=2")


def test_transcripts_of_an_example_stand_side_by_side(client: Client, three: list[Evaluation]) -> None:
    page = client.get(f"/evaluations/compare/example?{_address(three)}&example=1").content.decode()
    assert page.count("question 1</div>") == 3
    assert client.get(f"/evaluations/compare/example?{_address(three)}&example=9").status_code == 404
    assert client.get(f"/evaluations/compare/example?{_address(three)}&example=x").status_code == 422


def test_nine_are_too_many_and_a_hidden_one_is_none(client: Client, ada: User, three: list[Evaluation]) -> None:
    many = [*three, *(create_hosted(ada) for _ in range(6))]
    assert client.get(f"/evaluations/compare?{_address(many)}").status_code == 422
    hidden = _evaluated(make_user("mallory"), (1.0,))
    for path in ("compare", "compare/example"):
        assert client.get(f"/evaluations/{path}?{_address([*three, hidden])}&example=0").status_code == 404
    ids = "&".join(f"id={row.pk}" for row in [*three, hidden])
    headers = bearer(make_token(ada))
    assert client.get(f"/api/v1/evaluations/compare?{ids}", headers=headers).status_code == 404


def test_the_api_answers_the_matrix_in_pages(client: Client, ada: User, three: list[Evaluation]) -> None:
    path = "/api/v1/evaluations/compare?" + "&".join(f"id={row.pk}" for row in three)
    found = client.get(f"{path}&limit=2", headers=bearer(make_token(ada))).json()
    assert [row["rewards"] for row in found["rows"]] == [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    assert [(row["broken"], row["fixed"]) for row in found["rows"]] == [(1, 0), (0, 1)]
    assert (found["examples"], found["next_page"], len(found["pairs"])) == (3, 2, 3)
    last = client.get(f"{path}&limit=2&page=2", headers=bearer(make_token(ada))).json()
    assert ([row["example"] for row in last["rows"]], last["next_page"]) == ([2], None)
    assert client.get(f"{path}&only=x", headers=bearer(make_token(ada))).status_code == 422
