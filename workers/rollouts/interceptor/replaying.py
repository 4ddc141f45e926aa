"""Answers the first model calls of a rollout as those of a stored one were: what `Replay` in a configuration asks for.

A call gets the stored answer to what it asks. One that asks something else gets the next in order, and is marked: its
environment has not done the same again. A group that is driven through one client is told apart only by what is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envhub.packaging.asked import digest
from envhub.protocol.base import JsonObject
from envhub.protocol.evals.replays import Replayed, StoredCall

from workers.rollouts.interceptor.answers import Answer


@dataclass(frozen=True)
class ReplayedAnswer:
    """A stored answer, and how it came to be given."""

    answer: Answer
    how: Replayed


@dataclass
class Replaying:
    """What is left to be replayed for one recorder, whose `rollouts` each get every answer once."""

    calls: tuple[StoredCall, ...]
    rollouts: int = 1
    _left: list[int] = field(init=False)  # of each call: to how many rollouts it is still to be given

    def __post_init__(self) -> None:
        self._left = [self.rollouts] * len(self.calls)

    def answer(self, protocol: str, body: JsonObject) -> ReplayedAnswer | None:
        """The stored answer to this call; None where the model is to be asked."""
        left = [index for index, times in enumerate(self._left) if times]
        if not left or protocol == "tokenize":
            return None
        asked = digest(body)
        same = next((index for index in left if self._fits(index, protocol) and self.calls[index].asked == asked), None)
        if same is not None:
            return self._give(same, Replayed.SAME)
        if self.rollouts > 1 or not self._fits(left[0], protocol):
            return None
        return self._give(left[0], Replayed.CHANGED)

    def _fits(self, index: int, protocol: str) -> bool:
        return self.calls[index].protocol == protocol

    def _give(self, index: int, how: Replayed) -> ReplayedAnswer:
        self._left[index] -= 1
        call = self.calls[index]
        return ReplayedAnswer(Answer(body=call.response, finish_reason=call.finish_reason), how)
