"""The turns of a transcript: messages, with what a tool answered folded into the call that it answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from envhub.packaging.conversation import Message, results_of


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
    """All turns, in order, without the tool messages that are folded into another."""
    results = results_of(messages)
    folded = {number for answers in results.values() for number in answers.values()}
    return [
        Turn(number, message, {place: messages[of] for place, of in results.get(number, {}).items()})
        for number, message in enumerate(messages)
        if number not in folded
    ]
