"""The turns of transcripts side by side: what is compared of them, and which part of a long text is shown.

A text that differs only after its first SHOWN characters is shown from the difference on, so that it can be seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from envhub.packaging.conversation import Message

from hub.evals.reading.transcript import SHOWN, FoldedCall, Turn

AROUND = 200  # equal characters shown before a difference
_STEP = 1024  # characters that are compared at once


@dataclass(frozen=True)
class Excerpt:
    """A part of a text. skipped: the characters before it, which the other side also has."""

    text: str
    skipped: int
    length: int  # of the whole text
    differs: bool

    @property
    def is_cut(self) -> bool:
        """Whether some of the text is not shown."""
        return len(self.text) < self.length


@dataclass(frozen=True)
class ShownCall:
    """A tool call with its result. `pictures` are addresses, of the pictures in the result."""

    folded: FoldedCall
    argument: Excerpt
    result: Excerpt | None
    pictures: tuple[str, ...]
    differs: bool


@dataclass(frozen=True)
class ShownTurn:
    """A turn as the page shows it.

    pictures: their addresses; opens: whether folds with a difference are open.
    """

    number: int
    message: Message
    reasoning: Excerpt | None
    text: Excerpt | None
    calls: tuple[ShownCall, ...]
    pictures: tuple[str, ...]
    opens: bool


def said(turn: Turn) -> tuple[object, ...]:
    """Return the parts of a turn that are compared. The ids of its tool calls are random and left out."""
    message = turn.message
    calls = [_called(folded) for folded in turn.calls]
    return message.kind, message.text, message.reasoning, calls, message.pictures


def _called(folded: FoldedCall | None) -> tuple[object, ...]:
    if folded is None:
        return ()
    result = folded.result.message if folded.result else None
    return folded.call.name, folded.call.arguments, (result.text, result.pictures) if result else None


def shown_turn(turn: Turn, beside: Turn | None, pictures_at: str, *, opens: bool) -> ShownTurn:
    """Return a turn as it is shown.

    beside: the turn at this place of another side that differs; pictures_at: the prefix of its pictures' addresses;
    opens: as in ShownTurn.
    """
    message, other = turn.message, beside.message if beside else None
    calls = []
    for place, folded in enumerate(turn.calls):
        there = beside.calls[place] if beside and place < len(beside.calls) else None
        calls.append(_shown_call(folded, there, pictures_at, compared=beside is not None))
    return ShownTurn(
        number=turn.number,
        message=message,
        reasoning=excerpt(message.reasoning, other.reasoning if other else None) if message.reasoning else None,
        text=excerpt(message.text, other.text if other else None) if message.text else None,
        calls=tuple(calls),
        pictures=_pictures(message, turn.number, pictures_at),
        opens=opens,
    )


def _shown_call(folded: FoldedCall, there: FoldedCall | None, pictures_at: str, *, compared: bool) -> ShownCall:
    result, other = folded.result, there.result if there else None
    text = result.message.text if result else ""
    return ShownCall(
        folded=folded,
        argument=excerpt(folded.call.only_argument, there.call.only_argument if there else None),
        result=excerpt(text, other.message.text if other else None) if text else None,
        pictures=_pictures(result.message, result.number, pictures_at) if result else (),
        differs=compared and _called(folded) != _called(there),
    )


def _pictures(message: Message, number: int, pictures_at: str) -> tuple[str, ...]:
    return tuple(f"{pictures_at}/{number}/{place}" for place in range(len(message.pictures)))


def excerpt(text: str, other: str | None) -> Excerpt:
    """Return the first SHOWN characters or, if it differs from `other` after them, those around the difference."""
    place = None if other is None or other == text else _parting(text, other)
    start = 0 if place is None or place < SHOWN - AROUND else max(0, min(place - AROUND, len(text) - SHOWN))
    return Excerpt(text[start : start + SHOWN], start, len(text), place is not None)


def _parting(one: str, other: str) -> int:
    """Return the position of the first character in which two texts differ."""
    equal = next(at for at in count(0, _STEP) if one[at : at + _STEP] != other[at : at + _STEP])
    pairs = zip(one[equal : equal + _STEP], other[equal : equal + _STEP], strict=False)
    shorter = min(len(one), len(other))
    return next((equal + step for step, (a, b) in enumerate(pairs) if a != b), shorter)
