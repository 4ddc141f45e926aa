"""A rollout's messages as its reader has them: numbered, tool results folded into their calls, in windows of a bounded
size, with a strip of the whole and a search over all of it.

Numbers are those of the messages as stored, so that an address of one stays right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, pairwise

from envhub.packaging.conversation import Message, ToolCall, conversation
from envhub.protocol.evals.rollouts import RolloutRecord

WINDOW, WINDOW_CHARACTERS = 40, 60_000  # turns of one window, and of their texts at most (but for one turn)
SHOWN = 4_000  # characters of a text, until it is asked for as a whole
LINE = 140  # characters of a call or a result on one line
SEGMENTS, STRIP_HEIGHT = 120, 6  # of the strip
LEAST_BAD = 0.3  # of the strip's height
MOST_FOUND = 200
AROUND = 60  # characters each side of what was found
_EXIT = re.compile(r"\b(?:exit(?:ed)?(?: with)?(?: code| status)?|return ?code)\s*[:=]?\s*(-?\d{1,3})\b", re.IGNORECASE)
_TROUBLE = re.compile(r"\s*(?:error\b|traceback \(most recent|exception\b|\w+(?:Error|Exception):)", re.IGNORECASE)
_ENDS = 300  # characters at both ends of a result in which its exit status is looked for


@dataclass(frozen=True)
class Result:
    """What a tool answered. `number` is its message's."""

    number: int
    message: Message

    @cached_property
    def exit_code(self) -> int | None:
        """As its text says, if it does."""
        text = self.message.text
        found = _EXIT.search(text[:_ENDS]) or _EXIT.search(text[-_ENDS:])
        return int(found.group(1)) if found else None

    @cached_property
    def bad(self) -> bool:
        """Whether it looks like a failure."""
        return bool(self.exit_code) or _TROUBLE.match(self.message.text) is not None

    @property
    def summary(self) -> str:
        """In a few words."""
        lines = self.message.text.count("\n") + bool(self.message.text)
        size = self.message.text.strip()[:LINE] if lines == 1 else f"{lines} lines"
        return size if self.exit_code is None else f"exit {self.exit_code}, {size}"


@dataclass(frozen=True)
class FoldedCall:
    """A tool call with its result, if one came."""

    call: ToolCall
    result: Result | None

    @property
    def line(self) -> str:
        """Its arguments on one line."""
        text = " ".join(self.call.only_argument.split())
        return text if len(text) <= LINE else text[: LINE - 1] + "…"


@dataclass(frozen=True)
class Turn:
    """One message that is not folded into another. `numbers` are all that it holds."""

    number: int
    message: Message
    calls: tuple[FoldedCall, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.number, *(folded.result.number for folded in self.calls if folded.result is not None))

    @property
    def bad(self) -> bool:
        """Whether a tool's result in it looks like a failure."""
        if self.message.kind == "tool":
            return Result(self.number, self.message).bad
        return any(folded.result is not None and folded.result.bad for folded in self.calls)

    @property
    def size(self) -> int:
        """Characters that a window shows of it."""
        texts = [self.message.text, self.message.reasoning]
        for folded in self.calls:
            texts += [folded.call.arguments, folded.result.message.text if folded.result else ""]
        return sum(min(len(text), SHOWN) for text in texts)


@dataclass(frozen=True)
class Window:
    """Some turns in a row; the places are positions in Transcript.turns."""

    turns: Sequence[Turn]
    start: int
    stop: int


@dataclass(frozen=True)
class Segment:
    """A part of the strip: where it leads, what prevails in it, and in which share of its turns a tool call failed."""

    x: float
    width: float
    number: int
    kind: str
    bad: float

    @property
    def bad_height(self) -> float:
        """Of the strip's height: one failure among many turns is seen, and does not look as if all had failed."""
        return STRIP_HEIGHT * max(LEAST_BAD, self.bad)


@dataclass(frozen=True)
class Found:
    """One turn that has what was searched for, with the text around the first place."""

    number: int
    role: str
    before: str
    match: str
    after: str


@dataclass
class Transcript:
    """The turns of one rollout."""

    turns: Sequence[Turn]
    messages: Sequence[Message]
    _places: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._places = {number: place for place, turn in enumerate(self.turns) for number in turn.numbers}

    def window(self, start: int) -> Window:
        """From that place on, as much as one window shows; at least one turn, if any is left."""
        start = max(0, min(start, len(self.turns)))
        stop, size = start, 0
        while stop < len(self.turns) and stop - start < WINDOW:
            size += self.turns[stop].size
            if size > WINDOW_CHARACTERS and stop > start:
                break
            stop += 1
        return Window(self.turns[start:stop], start, stop)

    def before(self, stop: int) -> Window:
        """The window that ends there."""
        stop = max(0, min(stop, len(self.turns)))
        start, size = stop, 0
        while start > 0 and stop - start < WINDOW:
            size += self.turns[start - 1].size
            if size > WINDOW_CHARACTERS and start < stop:
                break
            start -= 1
        return Window(self.turns[start:stop], start, stop)

    def place_of(self, number: int) -> int | None:
        """Where the message of that number is shown."""
        return self._places.get(number)

    def strip(self) -> list[Segment]:
        """The whole, in at most SEGMENTS parts of equal width."""
        count = len(self.turns)
        parts = min(SEGMENTS, count)
        edges = [place * count // parts for place in range(parts + 1)] if parts else []
        return [
            self._segment(self.turns[low:high], 100 * low / count, 100 * (high - low) / count)
            for low, high in pairwise(edges)
        ]

    @staticmethod
    def _segment(turns: Sequence[Turn], x: float, width: float) -> Segment:
        kinds = [turn.message.kind for turn in turns]
        bad = [turn for turn in turns if turn.bad]
        first = next(iter(bad), turns[0])
        return Segment(x, width, first.number, max(set(kinds), key=kinds.count), len(bad) / len(turns))

    def search(self, text: str) -> list[Found]:
        """The messages with `text` in them, whatever its case, in order; the first MOST_FOUND."""
        wanted, lowered = re.compile(re.escape(text), re.IGNORECASE), text.lower()
        found = (
            _found(number, message, place)
            for number, message in enumerate(self.messages)
            if any(lowered in one.lower() for one in _texts(message))  # an eighth of the time that the expression takes
            if (place := next(filter(None, map(wanted.search, _texts(message))), None)) is not None
        )
        return list(islice(found, MOST_FOUND))


def _texts(message: Message) -> Iterator[str]:
    yield message.text
    yield message.reasoning
    for call in message.calls:
        yield f"{call.name} {call.arguments}"


def _found(number: int, message: Message, place: re.Match[str]) -> Found:
    text, start, end = place.string, place.start(), place.end()
    return Found(number, message.role, text[max(0, start - AROUND) : start], text[start:end], text[end:][:AROUND])


def transcript(record: RolloutRecord) -> Transcript:
    """Of a record: a tool's message is folded into the call that it answers, where that is the last one of its id."""
    messages = conversation(record)
    answered: dict[int, dict[int, Result]] = {}  # message -> its call -> result
    open_calls: dict[str, tuple[int, int]] = {}
    folded: set[int] = set()
    for number, message in enumerate(messages):
        for index, call in enumerate(message.calls):
            if call.id:
                open_calls[call.id] = (number, index)
        if message.kind == "tool" and message.answers in open_calls:
            of, index = open_calls.pop(message.answers)
            answered.setdefault(of, {})[index] = Result(number, message)
            folded.add(number)
    turns = [
        Turn(
            number,
            message,
            tuple(FoldedCall(call, answered.get(number, {}).get(index)) for index, call in enumerate(message.calls)),
        )
        for number, message in enumerate(messages)
        if number not in folded
    ]
    return Transcript(turns, messages)
