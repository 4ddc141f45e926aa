"""From the legacy library's output to our result."""

from __future__ import annotations

from math import nan
from typing import Any

import pytest
from envhub.runner.attempts import Attempt, Result
from envhub.runner.legacy.results import to_result


def result_of(state: dict[str, Any]) -> Result:
    """As the library writes its output: metrics lie flat beside its own fields, and over them."""
    attempt = Attempt(index=0, sampling={}, state=state)
    return to_result(attempt, {**state, **state["metrics"]}, [], {}, advantages=False)


def test_a_reward_function_called_reward_leaves_the_sum_alone() -> None:
    assert result_of({"reward": 0.75, "metrics": {"reward": 0.5, "format": 0.25}}).reward == 0.75


@pytest.mark.parametrize("name", ["error", "metrics", "completion", "is_truncated"])
def test_a_metric_called_like_a_field_is_only_a_metric(name: str) -> None:
    result = result_of({"reward": 1.0, "completion": [], "metrics": {name: 0.5}})
    assert (result.failure, result.reward, result.metrics) == (None, 1.0, {name: 0.5})
    assert (result.completion, result.truncated) == ([], False)


class Float32:
    """As numpy's: a number, and no Python float."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value


def test_a_group_rewards_numpy_numbers_count_as_numbers() -> None:
    state = {"reward": Float32(0.5), "advantage": Float32(0.25), "metrics": {"best": Float32(0.5), "nan": Float32(nan)}}
    result = to_result(Attempt(index=0, sampling={}, state=state), dict(state), [], {}, advantages=True)
    assert (result.reward, result.advantage, result.metrics) == (0.5, 0.25, {"best": 0.5})
