"""Advantages where a rollout is the work of several agents."""

from __future__ import annotations

from dataclasses import replace

from tests.factories.training import build_rollout, build_turn
from workers.training.credit.group import CreditOptions, credit_group, has_signal
from workers.training.samples.rollout import Part, Rollout


def played(index: int, *parts: Part | None, reward: float = 0.0) -> Rollout:
    """A rollout with a turn for each part."""
    turns = [build_turn([1, 2], [3, place]) for place in range(len(parts))]
    return build_rollout(*turns, index=index, reward=reward, parts=parts)


def advantages(*group: Rollout, **options: object) -> list[list[float]]:
    credits = credit_group(group, CreditOptions(**options))  # type: ignore[arg-type]
    assert has_signal(credits)
    return [credit.tolist() for credit in credits if credit is not None]


def test_players_whose_rewards_cancel_out_learn_each_from_their_own() -> None:
    one = played(0, Part("a", "white", "t", 1.0), Part("b", "black", "t", -1.0), Part("a", "white", "t", 1.0))
    two = played(1, Part("a", "white", "t", 0.0), Part("b", "black", "t", 0.0))
    assert advantages(one, two) == [[0.5, -0.5, 0.5], [-0.5, 0.5]]


def test_solvers_of_the_same_problem_are_compared_with_each_other() -> None:
    easy = played(0, Part("p", "proposer", "t", 0.0), *(Part(str(n), "solver", "easy", 1.0) for n in range(2)))
    hard = played(1, Part("p", "proposer", "t", 1.0), *(Part(str(n), "solver", "hard", float(n)) for n in range(2)))
    assert advantages(easy, hard) == [[-0.5, 0.0, 0.0], [0.5, -0.5, 0.5]]


def test_turns_of_no_part_have_the_outcomes_advantage() -> None:
    group = played(0, Part("a", "white", "t", 3.0), None, reward=1.0), build_rollout(index=1, reward=0.0)
    assert advantages(*group) == [[0.0, 0.5], [-0.5]]


def test_reinforce_takes_each_parts_reward() -> None:
    assert advantages(played(0, Part("a", "w", "", 2.0), Part("b", "b", "", -1.0)), baseline="none") == [[2.0, -1.0]]


def test_rewards_of_turns_are_an_agents_own_from_then_on() -> None:
    white, black = Part("a", "white", "t", 0.0), Part("b", "black", "t", 0.0)
    one = played(0, white, black, white)
    one = replace(one, turn_rewards=(0.0, -1.0, 1.0))
    two = replace(played(1, white, black, white), turn_rewards=(0.0, 0.0, 0.0))
    assert advantages(one, two) == [[0.5, -0.5, 0.5], [-0.5, 0.5, -0.5]]


def test_an_agent_without_rewards_of_turns_is_credited_by_its_parts() -> None:
    def match(index: int, won: float) -> Rollout:
        parts = Part("a", "white", "t", 0.0), Part("b", "black", "t", won)
        return replace(played(index, *parts), turn_rewards=(1.0 - index, 0.0))

    assert advantages(match(0, 1.0), match(1, -1.0)) == [[0.5, 1.0], [-0.5, -1.0]]
