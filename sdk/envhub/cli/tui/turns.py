"""The turns of a transcript: messages, with what a tool answered folded into the call that it answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from envhub.packaging.conversation import Message


@dataclass(frozen=True)
class Turn:
    """A message under its number as stored; `results` holds what its calls got, by their place."""

    number: int
    message: Message
    results: dict[int, Message] = field(default_factory=dict)

    def has(self, words: str) -> bool:
        """Whether these lower-case words are anywhere in it."""
        return any(words in text.lower() for text in self._texts())

    def _texts(self) -> Iterator[str]:
        yield self.message.text
        yield self.message.reasoning
        yield from (f"{call.name} {call.only_argument}" for call in self.message.calls)
        yield from (result.text for result in self.results.values())


def turns_of(messages: Sequence[Message]) -> list[Turn]:
    """All turns, in order. A tool message belongs to the last open call with the id that it answers."""
    turns: list[Turn] = []
    open_calls: dict[str, tuple[Turn, int]] = {}
    for number, message in enumerate(messages):
        if message.kind == "tool" and message.answers in open_calls:
            turn, place = open_calls.pop(message.answers)
            turn.results[place] = message
            continue
        turn = Turn(number, message)
        open_calls |= {call.id: (turn, place) for place, call in enumerate(message.calls) if call.id}
        turns.append(turn)
    return turns
