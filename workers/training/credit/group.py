"""Compute the advantages of a finished group, one per turn. Called by the coordinator before any token filtering."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from workers.training.credit.baseline import group_relative
from workers.training.credit.errors import CreditError
from workers.training.credit.returns import discounted_returns, relative_at_equal_turn
from workers.training.samples.arrays import Reals
from workers.training.samples.rollout import Rollout


@dataclass(frozen=True)
class CreditOptions:
    """How rewards become advantages."""

    baseline: Literal["group_mean", "none"] = "group_mean"  # none: plain REINFORCE, advantage = return
    scale_by_std: bool = False
    gamma: float = 1.0  # for per-turn returns; an outcome's reward is not discounted

    def __post_init__(self) -> None:
        if not 0.0 <= self.gamma <= 1.0:
            raise ValueError(f"gamma is {self.gamma}; it must lie between 0 and 1")
        if self.scale_by_std and self.baseline == "none":
            raise ValueError("scale_by_std scales deviations from the group's mean: it needs baseline = group_mean")


def credit_group(group: Sequence[Rollout], options: CreditOptions) -> tuple[Reals | None, ...]:
    """Return the advantages [turns] of each rollout of a group, None for those that did not survive.

    In order of precedence: the environment's advantages (unchanged; a turn's before a rollout's), per-turn rewards, the
    rewards of several agents' parts, the outcome's reward. Raises CreditError if only some survivors have advantages.
    If some rollouts of a group have per-turn rewards, the others count as 0 on every turn, and outcomes are ignored. A
    survivor without turns has nothing to credit and is not required to have advantages.
    """
    survivors = [rollout for rollout in group if rollout.survived]
    if _all_or_none(survivors, "turn_advantages"):
        credited = [np.array(one.turn_advantages or (), dtype=np.float64) for one in survivors]
    elif _all_or_none(survivors, "advantage"):
        credited = [np.full(len(one.turns), one.advantage or 0.0) for one in survivors]
    elif any(one.turn_rewards is not None for one in survivors):
        credited = _by_turn(survivors, options)
    elif any(one.parts is not None for one in survivors):
        credited = _by_part(survivors, options)
    else:
        credited = _by_outcome(survivors, options)
    advantages = iter(credited)
    return tuple(next(advantages) if rollout.survived else None for rollout in group)


def has_signal(credits: Sequence[Reals | None]) -> bool:
    """Return whether any advantage of the group is nonzero.

    A group without signal is dropped and replaced by another.
    """
    return any(bool(np.any(credit)) for credit in credits if credit is not None)


def _by_outcome(survivors: Sequence[Rollout], options: CreditOptions) -> list[Reals]:
    rewards = np.array([rollout.reward for rollout in survivors], dtype=np.float64)
    if options.baseline == "group_mean":
        rewards = group_relative(rewards, scale_by_std=options.scale_by_std)
    return [np.full(len(one.turns), reward) for one, reward in zip(survivors, rewards, strict=True)]


def _by_part(survivors: Sequence[Rollout], options: CreditOptions) -> list[Reals]:
    """Compare each part with the group's other parts of the same agent on the same task.

    Players of a game differ in what they can earn, and sibling solvers in the problem that they were given, so neither
    is a baseline for the other. Turns of no part have the outcome's advantage.
    """
    credited = _by_outcome(survivors, options)
    alike: defaultdict[tuple[str, str], dict[tuple[int, str], float]] = defaultdict(dict)
    for place, rollout in enumerate(survivors):
        for part in rollout.parts or ():
            if part is not None:
                alike[part.agent, part.task][place, part.id] = part.reward
    advantages: dict[tuple[int, str], float] = {}
    for rewards in alike.values():
        values = np.array(list(rewards.values()), dtype=np.float64)
        if options.baseline == "group_mean":
            values = group_relative(values, scale_by_std=options.scale_by_std)
        advantages |= zip(rewards, values.tolist(), strict=True)
    for place, rollout in enumerate(survivors):
        for turn, part in enumerate(rollout.parts or ()):
            if part is not None:
                credited[place][turn] = advantages[place, part.id]
    return credited


def _by_turn(survivors: Sequence[Rollout], options: CreditOptions) -> list[Reals]:
    rewards = [_turn_rewards(rollout) for rollout in survivors]
    returns = [discounted_returns(one.tolist(), options.gamma) for one in rewards]
    if options.baseline == "none":
        return returns
    return list(relative_at_equal_turn(returns, scale_by_std=options.scale_by_std))


def _turn_rewards(rollout: Rollout) -> Reals:
    given = rollout.turn_rewards
    return np.zeros(len(rollout.turns)) if given is None else np.array(given, dtype=np.float64)


def _all_or_none(survivors: Sequence[Rollout], name: str) -> bool:
    asked = [rollout for rollout in survivors if rollout.turns]
    given = [getattr(rollout, name) is not None for rollout in asked]
    if any(given) and not all(given):
        lacking = asked[given.index(False)].key
        raise CreditError(
            f"rollout {lacking} has no {name} and others of its group do; the environment must give them to all"
        )
    return any(given)
