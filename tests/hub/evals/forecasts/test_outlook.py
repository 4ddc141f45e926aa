"""How many examples separate two models, and how many groups teach: numbers worked by hand, and the page."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import product

import pytest
from django.test import Client
from envhub.protocol.evals.evaluations import IndexRow
from envhub.protocol.evals.rollouts import Outcome

from hub.evals.forecasts.power import power
from hub.evals.forecasts.trainability import beta_of, forecast
from hub.evals.models import Evaluation
from hub.evals.signal import differing
from hub.evals.statistics import Aggregate, ExampleTally
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, make_records, start, store


def _aggregate(*examples: Sequence[float]) -> Aggregate:
    """An evaluation whose examples have these rewards, as its segments bring them and it is stored."""
    aggregate, tallies = Aggregate(), defaultdict[int, ExampleTally](ExampleTally)
    for example, rewards in enumerate(examples):
        for rollout, reward in enumerate(rewards):
            row = IndexRow(example=example, rollout=rollout, example_hash="x", outcome=Outcome.OK, reward=reward)
            tallies[example] = ExampleTally.model_validate_json(tallies[example].model_dump_json())
            aggregate.add(tallies[example], row)
    return Aggregate.model_validate_json(aggregate.model_dump_json())


def _solved(**examples: int) -> Aggregate:
    """`_solved(n4c1=3)`: three examples with one of four solved."""
    numbers = [(*map(int, key.removeprefix("n").split("c")), count) for key, count in examples.items()]
    return _aggregate(*[[1.0] * c + [0.0] * (n - c) for n, c, count in numbers for _ in range(count)])


def _shares(aggregate: Aggregate) -> list[float]:
    found = forecast(aggregate)
    assert found is not None
    return [group.share for group in found.groups]


def test_groups_that_can_be_drawn_are_counted() -> None:
    assert differing({"1": 1, "0": 3}, 4, 2) == pytest.approx(0.5)  # 3 of the 6 pairs have the solved one
    assert differing({"1": 4}, 4, 2) == differing({"0.3": 4}, 4, 4) == 0.0
    assert differing({"1": 2, "0": 3}, 5, 4) == 1.0
    assert differing({"0.1": 2, "0.2": 1, "0.4": 1}, 4, 2) == pytest.approx(5 / 6)


def test_rewards_that_are_not_0_or_1_teach_as_they_are() -> None:
    """Five of six alike: of the 15 groups of four, 10 have the other one; all below 0.5, so none is solved."""
    found = forecast(_aggregate([0.1] * 5 + [0.4], [0.3] * 6))
    assert found is not None
    assert [group.is_bound for group in found.groups] == [False, True, True]
    assert _shares(_aggregate([0.1] * 5 + [0.4], [0.3] * 6)) == pytest.approx([(2 / 3) / 2, 0.5, 0.5])
    variance = (5 * 0.05**2 + 0.25**2) / 5  # of the first about its mean 0.15; that of the second is 0
    assert found.groups[0].advantage == pytest.approx(math.sqrt(variance / 2 * 3 / 4))


@pytest.mark.parametrize("rewards", [[0.1] * 4, [0.1 + 0.2, 0.3, 0.3, 0.3], [-0.0, 0.0, 0.0, 0.0]])
def test_rewards_that_only_rounding_tells_apart_teach_nothing(rewards: list[float]) -> None:
    found = forecast(_aggregate(rewards, [1e6 + 0.1] * 4))
    assert found is not None
    assert [(group.share, group.advantage) for group in found.groups] == [(0.0, 0.0)] * 3


def test_an_example_remembers_a_bounded_number_of_rewards() -> None:
    aggregate, tally = Aggregate(), ExampleTally()
    for rollout in range(200):
        aggregate.add(
            tally, IndexRow(example=0, rollout=rollout, example_hash="x", outcome=Outcome.OK, reward=rollout / 200)
        )
    assert len(tally.rewards.counts) == 64
    assert _shares(aggregate) == pytest.approx([1.0] * 3)


def test_a_large_group_of_examples_that_are_alike_is_binomial() -> None:
    counts = [(2, 0, 25), (2, 1, 50), (2, 2, 25)]  # as two fair coins fall: rho is 0
    a, b = beta_of(counts)
    assert a / (a + b) == pytest.approx(0.5)
    found = _shares(_solved(n2c0=25, n2c1=50, n2c2=25))
    assert found == pytest.approx([1 - 2 * 0.5**size for size in (4, 8, 16)], abs=0.01)


def test_the_beta_distribution_is_found_again() -> None:
    """Counts of 4 rollouts as a Beta(1, 1) gives them: all five equally often; a group of G differs by 1 - 2/(G+1)."""
    found = forecast(_solved(n4c0=80, n4c1=80, n4c2=80, n4c3=80, n4c4=80))
    assert found is not None
    assert [group.share for group in found.groups] == pytest.approx(
        [1 - 2 / (size + 1) for size in (4, 8, 16)], abs=0.01
    )
    assert [(group.drawn, group.is_bound) for group in found.groups] == [(True, False), (False, False), (False, False)]


def test_examples_that_are_always_or_never_solved_teach_nothing() -> None:
    found = forecast(_solved(n2c0=5, n2c2=5))
    assert found is not None
    assert [group.share for group in found.groups] == [0.0, 0.0, 0.0]
    assert found.best.sampled is None
    assert forecast(_solved(n1c1=9)) is None


def test_every_share_lies_between_0_and_1() -> None:
    for n, c, more in product((2, 3, 5), (0, 1, 2), (1, 7)):
        assert all(0.0 <= share <= 1.0 for share in _shares(_solved(**{f"n{n}c{c}": more, "n4c4": 1})))


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


def test_the_page_counts_graded_rewards_and_says_which_shares_are_bounds(db: None) -> None:
    user, client = make_user("ada"), Client()
    client.force_login(user)
    found = create_hosted(user)
    start(found)
    store(found, make_records((0.1, 0.3), (0.2, 0.2)))
    page = client.get(f"/evaluations/{found.pk}")
    assert [group.share for group in page.context["outlook"].forecast.groups] == [0.5, 0.5, 0.5]
    assert "≥ 50" in page.content.decode()
    assert "too easy or too hard" not in page.content.decode()


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
