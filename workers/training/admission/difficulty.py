"""The hosted format's [buffer]: examples that are always or never solved are set aside. One buffer an environment."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Pool(StrEnum):
    """Where an example is. Only normal ones are sampled."""

    EASY = "easy"
    NORMAL = "normal"
    HARD = "hard"


@dataclass(frozen=True)
class DifficultyOptions:
    """Keys of [buffer]. A threshold of None sets nothing aside."""

    easy_threshold: float | None = None  # an example whose group's mean reward is >= this becomes easy
    hard_threshold: float | None = None  # <= this: hard
    easy_fraction: float = 0.0  # of the easy examples, how many become normal again on a resume
    hard_fraction: float = 0.0
    online_difficulty_filtering: bool = False  # do not train groups whose mean reward is exactly 0 or 1

    def __post_init__(self) -> None:
        easy, hard = self.easy_threshold, self.hard_threshold
        if easy is not None and hard is not None and easy <= hard:
            raise ValueError(f"buffer.easy_threshold ({easy}) must be greater than buffer.hard_threshold ({hard})")

    def pool(self, mean_reward: float) -> Pool:
        """Where an example with this mean reward belongs."""
        if self.easy_threshold is not None and mean_reward >= self.easy_threshold:
            return Pool.EASY
        if self.hard_threshold is not None and mean_reward <= self.hard_threshold:
            return Pool.HARD
        return Pool.NORMAL


class DifficultyBuffer:
    """Pools of an environment's examples. State is small and JSON, for checkpoints."""

    def __init__(self, examples: Iterable[int], options: DifficultyOptions) -> None:
        self._options = options
        self._pools = dict.fromkeys(examples, Pool.NORMAL)

    def normal(self) -> tuple[int, ...]:
        """Examples that may be sampled, in the data set's order. Empty: there is nothing left to learn from."""
        return tuple(example for example, pool in self._pools.items() if pool is Pool.NORMAL)

    def sizes(self) -> dict[str, int]:
        """Examples in each pool, for metrics."""
        return {pool.value: sum(one is pool for one in self._pools.values()) for pool in Pool}

    def observe(self, example: int, mean_reward: float) -> bool:
        """Note a finished group, and say whether it may train. An example once set aside stays there."""
        if self._pools.get(example) is Pool.NORMAL:
            self._pools[example] = self._options.pool(mean_reward)
        return not (self._options.online_difficulty_filtering and mean_reward in (0.0, 1.0))

    def state(self) -> dict[str, list[int]]:
        """Examples set aside, for a checkpoint."""
        return {
            pool.value: [example for example, one in self._pools.items() if one is pool]
            for pool in (Pool.EASY, Pool.HARD)
        }

    def restore(self, state: Mapping[str, Sequence[int]], draw: random.Random | None) -> None:
        """Set aside what a checkpoint says. `draw` picks the fractions that return to normal; None: keep all aside.

        Pass None to continue the same run exactly, a seeded generator to begin again from its checkpoint.
        """
        fractions = {Pool.EASY: self._options.easy_fraction, Pool.HARD: self._options.hard_fraction}
        for pool, fraction in fractions.items():
            aside = [example for example in state.get(pool.value, ()) if example in self._pools]
            back = set(draw.sample(aside, round(len(aside) * fraction))) if draw is not None else set()
            self._pools.update((example, pool) for example in aside if example not in back)
