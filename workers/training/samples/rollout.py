"""A rollout as the trainer sees it: token-exact policy turns, reward and outcome.

Made by `samples.record.to_rollout`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workers.training.samples.arrays import Floats, Ids


@dataclass(frozen=True, order=True)
class RolloutKey:
    """Identifies a rollout in a run: the group's number (unique in the run) and its place in the group."""

    group: int
    index: int

    def __str__(self) -> str:
        return f"{self.group}/{self.index}"


@dataclass(frozen=True, eq=False)
class Turn:
    """One policy call: the sampled tokens and the sampler's data about them, never re-tokenised."""

    prompt_ids: Ids  # [P] all tokens that the engine was shown
    completion_ids: Ids  # [C] the sampled tokens
    logprobs: Floats  # [C] the sampler's, at its sampling temperature
    versions: Ids  # [C] policy version that sampled each token
    finish_reason: str | None = None

    def __post_init__(self) -> None:
        count = len(self.completion_ids)
        if len(self.logprobs) != count or len(self.versions) != count:
            lengths = f"{count} tokens, {len(self.logprobs)} logprobs, {len(self.versions)} versions"
            raise ValueError(f"a turn has {lengths}: they must be equally many")


@dataclass(frozen=True)
class Part:
    """One agent's part of a rollout with several. Parts of a group with the same `agent` and `task` can be compared."""

    id: str
    agent: str
    task: str
    reward: float


@dataclass(frozen=True, eq=False)
class Rollout:
    """One attempt at one example. `turns` holds the trainable policy turns in order."""

    group: int
    example: int
    index: int
    environment: str
    turns: tuple[Turn, ...]
    reward: float | None = None  # None when failed
    advantage: float | None = None  # only if the environment provides advantages
    turn_advantages: tuple[float, ...] | None = None  # the same, one for each of `turns`
    turn_rewards: tuple[float, ...] | None = None  # one for each of `turns`; None: only the outcome is rewarded
    parts: tuple[Part | None, ...] | None = None  # one for each of `turns`; None: there is one agent
    metrics: Mapping[str, float] = field(default_factory=dict)
    truncated: bool = False  # ended by a limit, not by the environment or the policy
    failed: bool = False
    temperature: float = 1.0

    def __post_init__(self) -> None:
        given = {"turn rewards": self.turn_rewards, "turn advantages": self.turn_advantages, "parts": self.parts}
        for name, values in given.items():
            if values is not None and len(values) != len(self.turns):
                raise ValueError(f"rollout {self.key} has {len(self.turns)} turns and {len(values)} {name}")

    @property
    def key(self) -> RolloutKey:
        """The rollout's group and index."""
        return RolloutKey(self.group, self.index)

    @property
    def survived(self) -> bool:
        """Whether the rollout counts for its group's baseline: it did not fail and has a reward.

        Truncated ones may count.
        """
        return not self.failed and self.reward is not None

    @property
    def sampled_tokens(self) -> int:
        """How many tokens the policy sampled."""
        return sum(len(turn.completion_ids) for turn in self.turns)
