"""How many examples separate two models, and how many groups teach: numbers worked by hand, and the page."""

from __future__ import annotations

import math
from itertools import product

import pytest
from django.test import Client

from hub.evals.forecasts.power import power
from hub.evals.forecasts.trainability import beta_of, differing, forecast
from hub.evals.models import Evaluation
from hub.evals.statistics import Aggregate
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, make_records, start, store


def _aggregate(**solved: int) -> Aggregate:
    """`_aggregate(n4c1=3)`: three examples with one of four solved."""
    return Aggregate(solved={key.replace("n", "").replace("c", ":"): count for key, count in solved.items()})


def test_groups_that_can_be_drawn_are_counted() -> None:
    assert differing(4, 1, 2) == pytest.approx(0.5)  # 3 of the 6 pairs have the solved one
    assert differing(4, 4, 2) == differing(4, 0, 4) == 0.0
    assert differing(5, 2, 4) == 1.0


def test_a_large_group_of_examples_that_are_alike_is_binomial() -> None:
    counts = [(2, 0, 25), (2, 1, 50), (2, 2, 25)]  # as two fair coins fall: rho is 0
    a, b = beta_of(counts)
    assert a / (a + b) == pytest.approx(0.5)
    found = forecast(_aggregate(n2c0=25, n2c1=50, n2c2=25))
    assert found is not None
    assert [group.share for group in found.groups] == pytest.approx(
        [1 - 2 * 0.5**size for size in (4, 8, 16)], abs=0.01
    )


def test_the_beta_distribution_is_found_again() -> None:
    """Counts of 4 rollouts as a Beta(1, 1) gives them: all five equally often; a group of G differs by 1 - 2/(G+1)."""
    found = forecast(_aggregate(n4c0=400, n4c1=400, n4c2=400, n4c3=400, n4c4=400))
    assert found is not None
    assert [group.share for group in found.groups] == pytest.approx(
        [1 - 2 / (size + 1) for size in (4, 8, 16)], abs=0.01
    )
    assert [group.drawn for group in found.groups] == [True, False, False]


def test_examples_that_are_always_or_never_solved_teach_nothing() -> None:
    found = forecast(_aggregate(n2c0=5, n2c2=5))
    assert found is not None
    assert [group.share for group in found.groups] == [0.0, 0.0, 0.0]
    assert found.best.sampled is None
    assert forecast(_aggregate(n1c1=9)) is None


def test_every_share_lies_between_0_and_1() -> None:
    for n, c, more in product((2, 3, 5), (0, 1, 2), (1, 7)):
        found = forecast(Aggregate(solved={f"{n}:{c}": more, "4:4": 1}))
        assert found is not None
        assert all(0.0 <= group.share <= 1.0 for group in found.groups)


def test_half_the_difference_needs_four_times_the_examples() -> None:
    found = power(0.05, 100, 0.1)  # sigma = 0.5
    assert found is not None
    assert found.needed == math.ceil((2.801585 * 0.5 / 0.1) ** 2) == 197
    assert found.more == 97
    assert found.smallest == pytest.approx(0.14008, abs=1e-4)
    half = power(0.05, 100, 0.05)
    assert half is not None
    assert half.needed == pytest.approx(4 * 196.2, abs=1)
    assert power(0.0, 100, 0.1) is None


def test_the_page_offers_the_form_with_that_many_examples(db: None) -> None:
    user, client = make_user("ada"), Client()
    client.force_login(user)
    found = create_hosted(user)
    start(found)
    store(found, make_records((1.0, 0.0), (1.0, 1.0), (0.0, 0.0)))
    page = client.get(f"/evaluations/{found.pk}?difference=0.2")
    needed = page.context["outlook"].power.needed
    assert needed > 3
    form = client.get(f"/environments/ada/tiny-env/evaluate?from={found.pk}&num_examples={needed}")
    assert f'value="{needed}"' in form.content.decode()
    assert f"from={found.pk}&amp;num_examples={needed}" in page.content.decode()
    Evaluation.objects.update(state="succeeded")
    tab = client.get("/environments/ada/tiny-env/training")
    assert tab.context["foretold_by"] == found
    mallory = Client()
    mallory.force_login(make_user("mallory"))
    assert "outlook" not in mallory.get("/environments/ada/tiny-env/training").context
    for wrong in ("x", "-1", "nan", "1e999"):
        assert client.get(f"/evaluations/{found.pk}?difference={wrong}").status_code == 200


def test_graded_rewards_are_not_said_to_teach_nothing(db: None) -> None:
    user, client = make_user("ada"), Client()
    client.force_login(user)
    found = create_hosted(user)
    start(found)
    store(found, make_records((0.1, 0.3), (0.2, 0.4)))
    page = client.get(f"/evaluations/{found.pk}").content.decode()
    assert "≥ 0" in page
    assert "a signal can come only from the other rewards" in page
    assert "too easy or too hard" not in page


def test_the_forecast_is_of_the_environments_own_arguments(db: None) -> None:
    user, client = make_user("ada"), Client()
    client.force_login(user)
    own, other = create_hosted(user), create_hosted(user, env_args={"length": 6})
    for found in (own, other):
        start(found)
        store(found, make_records((1.0, 0.0), (0.0, 0.0)))
    Evaluation.objects.update(state="succeeded")
    assert client.get("/environments/ada/tiny-env/training").context["foretold_by"] == own
    own.delete()
    assert "env_args length=6" in client.get("/environments/ada/tiny-env/training").content.decode()
