from __future__ import annotations

from typing import Any

import pytest
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord, TokenData, Turn, TurnAgent

from workers.training.samples.errors import UntrainableRecord
from workers.training.samples.record import to_rollout


def record_turn(index: int = 0, **fields: Any) -> Turn:
    tokens = TokenData(prompt_ids=(1, 2), completion_ids=(3, 4), logprobs=(-0.5, -0.25))
    values = {"protocol": "tokens", "model": "m", "request": {}, "response": {}, "tokens": tokens, "policy_version": 7}
    return Turn(index=index, **{**values, **fields})


def record(*turns: Turn, **fields: Any) -> RolloutRecord:
    values = {"example": 5, "rollout": 1, "example_hash": "0" * 64, "outcome": Outcome.OK, "reward": 0.5}
    return RolloutRecord(turns=turns, **{**values, **fields})


def test_keeps_tokens_logprobs_and_version_of_each_token() -> None:
    rollout = to_rollout(record(record_turn()), group=3, environment="e")
    (turn,) = rollout.turns
    assert turn.prompt_ids.tolist() == [1, 2]
    assert turn.completion_ids.tolist() == [3, 4]
    assert turn.logprobs.tolist() == [-0.5, -0.25]
    assert turn.versions.tolist() == [7, 7]
    assert (rollout.key.group, rollout.key.index, rollout.example, rollout.reward) == (3, 1, 5, 0.5)


@pytest.mark.parametrize(
    "fields", [{"route": "judge"}, {"trainable": False}, {"status": 500, "tokens": None}, {"error": "reset"}]
)
def test_turns_that_are_not_the_policys_own_answers_are_left_out(fields: dict[str, Any]) -> None:
    rollout = to_rollout(record(record_turn(0), record_turn(1, **fields)), group=0, environment="e")
    assert len(rollout.turns) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"tokens": None},
        {"tokens": TokenData(prompt_ids=(1,), completion_ids=(2,))},
        {"tokens": TokenData(prompt_ids=(1,), completion_ids=(2,), logprobs=(float("nan"),))},
        {"policy_version": None},
    ],
)
def test_a_turn_without_what_training_needs_is_refused_by_number(fields: dict[str, Any]) -> None:
    with pytest.raises(UntrainableRecord, match="turn 2"):
        to_rollout(record(record_turn(2, **fields)), group=0, environment="e")


@pytest.mark.parametrize(
    "fields", [{"outcome": Outcome.FAILED}, {"reward": None}, {"reward": float("nan")}, {"reward": float("inf")}]
)
def test_a_rollout_without_a_finite_reward_failed(fields: dict[str, Any]) -> None:
    rollout = to_rollout(record(record_turn(tokens=None), **fields), group=0, environment="e")
    assert rollout.failed
    assert rollout.reward is None
    assert not rollout.survived


def test_the_reward_of_an_untrained_turn_goes_to_the_trained_one_before_it() -> None:
    turns = (
        record_turn(0, reward=0.25),
        record_turn(1),
        record_turn(2, reward=0.5, trainable=False),
        record_turn(3, reward=1.0),
    )
    rollout = to_rollout(record(*turns), group=0, environment="e")
    assert rollout.turn_rewards == (0.25, 0.5, 1.0)


def test_a_reward_before_the_first_trained_turn_goes_to_that_turn() -> None:
    turns = record_turn(0, reward=0.25, trainable=False), record_turn(1)
    rollout = to_rollout(record(*turns), group=0, environment="e")
    assert rollout.turn_rewards == (0.25,)


def test_advantages_of_trained_turns_are_kept_as_they_are() -> None:
    turns = record_turn(0, advantage=0.25), record_turn(1, advantage=9.0, trainable=False), record_turn(2)
    rollout = to_rollout(record(*turns), group=0, environment="e")
    assert rollout.turn_advantages == (0.25, 0.0)
    assert rollout.turn_rewards is None


def test_a_truncated_rollout_says_so() -> None:
    assert to_rollout(record(record_turn(), outcome=Outcome.TRUNCATED), group=0, environment="e").truncated


def test_temperature_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="temperature"):
        to_rollout(record(record_turn()), group=0, environment="e", temperature=0.0)


def test_rewards_of_turns_stay_with_their_agent_and_those_of_an_untrained_one_are_nobodys() -> None:
    white, black, referee = (TurnAgent(id=name, name=name, reward=0.0) for name in ("white", "black", "referee"))
    turns = [
        record_turn(0, agent=white),
        record_turn(1, agent=black),
        record_turn(2, agent=white, trainable=False, reward=1.0),
        record_turn(3, agent=referee, trainable=False, reward=100.0),
    ]
    rollout = to_rollout(record(*turns), group=0, environment="e")
    assert rollout.turn_rewards == (1.0, 0.0)
    assert to_rollout(record(turns[0], turns[3]), group=0, environment="e").turn_rewards is None
