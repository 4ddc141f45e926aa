"""Rewards and advantages that an environment gave to single model calls, in the order of the calls."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .failures import BadReward

STEP_REWARDS = "step_rewards"  # of a current trace's `info`: that generation has no field for them


@dataclass(frozen=True)
class Step:
    """One model call. `response_id` is empty where the library does not keep it: then only the order tells."""

    response_id: str = ""
    reward: float | None = None
    advantage: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As envhub.protocol.runner.StepCredit reads it."""
        return {"response_id": self.response_id, "reward": self.reward, "advantage": self.advantage}


def of_trajectory(trajectory: Any, overall: float | None) -> tuple[Step, ...]:
    """Of a legacy trajectory; () when the environment gave none. `overall` is the advantage of the whole rollout, which
    Taskset signals also write into every step. Raises BadReward."""
    steps = [step for step in trajectory or () if hasattr(step, "get")]
    rewards = [_number("reward", step.get("reward")) for step in steps]
    advantages = [_number("advantage", step.get("advantage")) for step in steps]
    if all(value is None or value == overall for value in advantages):
        advantages = [None] * len(steps)
    return _unless_empty(
        Step(response_id(step), reward, advantage)
        for step, reward, advantage in zip(steps, rewards, advantages, strict=True)
    )


def of_traces(traces: Iterable[Any]) -> tuple[Step, ...]:
    """Of an episode of the current generation; () when the environment gave none. Raises BadReward.

    A trace's rewards are `info["step_rewards"]`, one for each of its model calls (None: nothing); advantages are those
    of its nodes, of which the mean over the call's tokens is taken.
    """
    found: list[tuple[float, Step]] = []
    for trace in traces:
        calls = sorted((call for call in trace.calls if call.node is not None), key=lambda call: call.time.start)
        rewards = trace.info.get(STEP_REWARDS)
        if rewards is None:
            rewards = [None] * len(calls)
        if not isinstance(rewards, list | tuple) or len(rewards) != len(calls):
            raise BadReward(f'info["{STEP_REWARDS}"] is {str(rewards)[:200]}: not a list of {len(calls)}, one a call')
        for call, reward in zip(calls, rewards, strict=True):
            values = [_number("advantage", value) or 0.0 for value in trace.nodes[call.node].advantages or ()]
            advantage = sum(values) / len(values) if values else None
            found.append((call.time.start, Step("", _number("reward", reward), advantage)))
    return _unless_empty(step for _, step in sorted(found, key=lambda one: one[0]))


def response_id(step: Any) -> str:
    """Id of the model's answer that a trajectory step holds; empty where there is none."""
    response = step.get("response") if hasattr(step, "get") else None
    ident = response.get("id") if isinstance(response, dict) else getattr(response, "id", None)
    return ident if isinstance(ident, str) else ""


def given(trajectory: Any) -> tuple[tuple[bool, bool], ...]:
    """Which steps have a reward, and an advantage, by now."""
    return tuple((step.get("reward") is not None, step.get("advantage") is not None) for step in trajectory or ())


def unfill(trajectory: Any, before: tuple[tuple[bool, bool], ...]) -> None:
    """Take back what the library's group scoring wrote into steps that had nothing: it is the whole rollout's, and
    says nothing of a turn."""
    for step, (reward, advantage) in zip(trajectory or (), before, strict=False):
        if not reward:
            step["reward"] = None
        if not advantage:
            step["advantage"] = None


def _unless_empty(steps: Iterable[Step]) -> tuple[Step, ...]:
    made = tuple(steps)
    return made if any(step.reward is not None or step.advantage is not None for step in made) else ()


def _number(name: str, value: Any) -> float | None:
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise BadReward(f"the {name} of a step is {value!r}, not a finite number")
    return number
