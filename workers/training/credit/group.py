"""Compute the advantages of a finished group, one per turn. Called by the coordinator before any token filtering."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
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
    for tracks in _alike(survivors):
        values = np.array([one.reward for one in tracks], dtype=np.float64)
        if options.baseline == "group_mean":
            values = group_relative(values, scale_by_std=options.scale_by_std)
        for track, value in zip(tracks, values, strict=True):
            if track.of_part:
                credited[track.place][track.turns] = value
    return credited


def _by_turn(survivors: Sequence[Rollout], options: CreditOptions) -> list[Reals]:
    """Give each turn what its agent earned from then on, compared with like parts at the same turn.

    An agent none of whose turns earned anything is credited by the rewards of its parts.
    """
    rewards = [_turn_rewards(rollout) for rollout in survivors]
    credited = _by_part(survivors, options)
    for tracks in _alike(survivors):
        if tracks[0].of_part and not any(rewards[one.place][one.turns].any() for one in tracks):
            continue
        returns = [discounted_returns(rewards[one.place][one.turns].tolist(), options.gamma) for one in tracks]
        if options.baseline == "group_mean":
            returns = list(relative_at_equal_turn(returns, scale_by_std=options.scale_by_std))
        for track, values in zip(tracks, returns, strict=True):
            credited[track.place][track.turns] = values
    return credited


@dataclass
class _Track:
    """The turns of one agent's part of the rollout at `place`, or those of no part."""

    place: int
    reward: float = 0.0  # of the part
    of_part: bool = False
    turns: list[int] = field(default_factory=list)


def _alike(survivors: Sequence[Rollout]) -> Iterable[list[_Track]]:
    """Return the tracks of a group by agent and task. A rollout of one agent is a single track, like all others."""
    alike: defaultdict[tuple[str, str] | None, list[_Track]] = defaultdict(list)
    for place, rollout in enumerate(survivors):
        own: dict[str | None, _Track] = {}
        for turn, part in enumerate(rollout.parts or (None,) * len(rollout.turns)):
            name, kind = (part.id, (part.agent, part.task)) if part is not None else (None, None)
            if name not in own:
                own[name] = _Track(place, part.reward if part else 0.0, part is not None)
                alike[kind].append(own[name])
            own[name].turns.append(turn)
    return alike.values()


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
