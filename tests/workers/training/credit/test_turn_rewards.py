from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.factories.training import build_rollout, build_turn
from workers.training.credit.errors import CreditError
from workers.training.credit.group import CreditOptions, credit_group
from workers.training.credit.returns import discounted_returns
from workers.training.samples.arrays import Reals
from workers.training.samples.rollout import Rollout

STEPS = (0.0, 0.0, 0.5, 0.0, 1.0)


def rollout_of(*rewards: float, index: int = 0) -> Rollout:
    turns, history = [], [1]
    for number in range(len(rewards)):
        turns.append(build_turn(history, [10 + number]))
        history = [*history, 10 + number, 9]
    return build_rollout(*turns, index=index, reward=sum(rewards), turn_rewards=rewards)


def credited(group: tuple[Rollout, ...], options: CreditOptions) -> list[list[float]]:
    found: list[Reals] = [credit for credit in credit_group(group, options) if credit is not None]
    return [credit.tolist() for credit in found]


@pytest.mark.parametrize(
    ("gamma", "returns"),
    [
        (1.0, [1.5, 1.5, 1.5, 1.0, 1.0]),
        (0.5, [0.1875, 0.375, 0.75, 0.5, 1.0]),
        (0.0, [0.0, 0.0, 0.5, 0.0, 1.0]),
    ],
)
def test_returns_worked_by_hand(gamma: float, returns: list[float]) -> None:
    assert discounted_returns(STEPS, gamma).tolist() == returns


def test_returns_against_the_definition() -> None:
    gamma = 0.9
    oracle = [sum(gamma ** (late - at) * STEPS[late] for late in range(at, 5)) for at in range(5)]
    np.testing.assert_allclose(discounted_returns(STEPS, gamma), oracle, rtol=1e-15)


def test_the_baseline_is_the_groups_mean_at_the_same_turn() -> None:
    group = rollout_of(*STEPS), rollout_of(0.0, 1.0, 0.0, index=1)
    assert credited(group, CreditOptions()) == [[0.25, 0.25, 0.75, 0.0, 0.0], [-0.25, -0.25, -0.75]]


def test_a_turn_that_only_one_rollout_reached_gets_nothing() -> None:
    group = rollout_of(0.0, 1.0), rollout_of(0.0, index=1)
    assert credited(group, CreditOptions()) == [[0.5, 0.0], [-0.5]]


def test_reinforce_uses_the_returns_themselves() -> None:
    assert credited((rollout_of(*STEPS),), CreditOptions(baseline="none", gamma=0.5)) == [
        [0.1875, 0.375, 0.75, 0.5, 1.0]
    ]


def test_a_rollout_without_rewards_of_its_turns_earned_nothing() -> None:
    group = rollout_of(0.0, 1.0), build_rollout(index=1, reward=7.0)
    assert credited(group, CreditOptions()) == [[0.5, 0.0], [-0.5]]


def test_advantages_of_turns_come_before_everything_else() -> None:
    one = replace(rollout_of(*STEPS), advantage=9.0, turn_advantages=(1.0, 2.0, 3.0, 4.0, 5.0))
    assert credited((one,), CreditOptions(gamma=0.5)) == [[1.0, 2.0, 3.0, 4.0, 5.0]]


def test_only_some_rollouts_with_advantages_of_turns_are_refused() -> None:
    group = replace(rollout_of(0.0, 1.0), turn_advantages=(1.0, 2.0)), rollout_of(0.0, index=1)
    with pytest.raises(CreditError, match="no turn_advantages"):
        credit_group(group, CreditOptions())


@pytest.mark.parametrize("name", ["rewards", "advantages"])
def test_as_many_as_turns(name: str) -> None:
    with pytest.raises(ValueError, match=f"1 turns and 2 turn {name}"):
        replace(build_rollout(), **{f"turn_{name}": (0.0, 1.0)})
