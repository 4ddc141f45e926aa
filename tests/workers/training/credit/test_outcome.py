from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.factories.training import build_group, build_rollout, build_turn
from workers.training.credit.errors import CreditError
from workers.training.credit.group import CreditOptions, credit_group, has_signal


def test_advantage_is_reward_minus_the_mean_of_the_survivors() -> None:
    credits = credit_group(build_group(1.0, None, 0.0, 0.5), CreditOptions())
    assert credits[1] is None
    assert [credit.tolist() for credit in credits if credit is not None] == [[0.5], [-0.5], [0.0]]


def test_every_turn_of_a_rollout_has_its_outcomes_advantage() -> None:
    turns = build_turn([1], [2]), build_turn([1, 2, 9], [3])
    credits = credit_group((build_rollout(*turns, reward=1.0), build_rollout(index=1)), CreditOptions())
    assert credits[0] is not None
    assert credits[0].tolist() == [0.5, 0.5]


def test_standard_deviation_is_the_unbiased_one() -> None:
    first, _ = credit_group(build_group(1.0, 0.0), CreditOptions(scale_by_std=True))
    assert first is not None
    assert first[0] == pytest.approx(0.5 / (0.5**0.5 + 1e-4))


@pytest.mark.parametrize("rewards", [(1.0,), (1.0, None), (0.3, 0.1 + 0.2), (0.0, 0.0), (None, None)])
@pytest.mark.parametrize("scale_by_std", [False, True])
def test_one_survivor_or_equal_rewards_give_no_signal(rewards: tuple[float | None, ...], scale_by_std: bool) -> None:
    credits = credit_group(build_group(*rewards), CreditOptions(scale_by_std=scale_by_std))
    assert not has_signal(credits)
    assert all(credit is None or not credit.any() for credit in credits)


def test_reinforce_takes_the_reward_as_it_is() -> None:
    credits = credit_group(build_group(1.0, 0.25), CreditOptions(baseline="none"))
    assert [credit.tolist() for credit in credits if credit is not None] == [[1.0], [0.25]]


def test_reinforce_learns_from_a_group_of_one() -> None:
    assert has_signal(credit_group(build_group(1.0), CreditOptions(baseline="none")))


def test_advantages_of_the_environment_are_taken_as_they_are() -> None:
    group = build_rollout(reward=1.0, advantage=0.125), build_rollout(index=1, reward=1.0, advantage=-2.0)
    credits = credit_group(group, CreditOptions(scale_by_std=True))
    assert [credit.tolist() for credit in credits if credit is not None] == [[0.125], [-2.0]]


def test_an_environment_that_credits_half_of_a_group_is_refused() -> None:
    group = build_rollout(reward=1.0, advantage=0.5), build_rollout(index=1, reward=0.0)
    with pytest.raises(CreditError, match="rollout 0/1 has no advantage"):
        credit_group(group, CreditOptions())


@pytest.mark.parametrize("given", [{"advantage": 0.5}, {"turn_advantages": (0.5,)}])
def test_a_survivor_without_turns_has_no_advantage_to_give(given: dict[str, Any]) -> None:
    group = replace(build_rollout(reward=1.0), **given), replace(build_rollout(index=1, reward=0.0), turns=())
    credits = credit_group(group, CreditOptions())
    assert [credit.tolist() for credit in credits if credit is not None] == [[0.5], []]


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="gamma"):
        CreditOptions(gamma=1.5)
    with pytest.raises(ValueError, match="baseline"):
        CreditOptions(baseline="none", scale_by_std=True)
