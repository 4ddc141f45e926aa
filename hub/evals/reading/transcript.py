"""A rollout's messages as the reader shows them: numbered, with tool results folded into their calls, in windows of
bounded size, with a strip that gives an overview of all and a search over all.

Numbers are those of the messages as stored, so that links to a message stay valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, pairwise

from envhub.packaging.conversation import Message, ToolCall, conversation, conversation_of, results_of
from envhub.protocol.evals.rollouts import RolloutRecord

from hub.evals.reading.tool_texts import ToolText, call_texts

# Limits of a window: turns, and characters of their texts (a single turn may have more).
WINDOW, WINDOW_CHARACTERS = 40, 60_000
SHOWN = 4_000  # characters of a text that are shown until the whole is requested
LINE = 140  # characters of a call or a result on one line
SEGMENTS, STRIP_HEIGHT = 120, 6  # of the strip
LEAST_BAD = 0.3  # share of the strip's height
MOST_FOUND = 200
AROUND = 60  # characters shown on each side of a match
_EXIT = re.compile(r"\b(?:exit(?:ed)?(?: with)?(?: code| status)?|return ?code)\s*[:=]?\s*(-?\d{1,3})\b", re.IGNORECASE)
_TROUBLE = re.compile(r"\s*(?:error\b|traceback \(most recent|exception\b|\w+(?:Error|Exception):)", re.IGNORECASE)
_ENDS = 300  # characters at both ends of a result that are searched for its exit status


@dataclass(frozen=True)
class Result:
    """The result of a tool call. `number` is that of its message."""

    number: int
    message: Message

    @cached_property
    def exit_code(self) -> int | None:
        """The exit code that its text reports, if any."""
        text = self.message.text
        found = _EXIT.search(text[:_ENDS]) or _EXIT.search(text[-_ENDS:])
        return int(found.group(1)) if found else None

    @cached_property
    def bad(self) -> bool:
        """Whether it looks like a failure."""
        return bool(self.exit_code) or _TROUBLE.match(self.message.text) is not None

    @property
    def summary(self) -> str:
        """A summary in a few words."""
        lines = self.message.text.count("\n") + bool(self.message.text)
        size = self.message.text.strip()[:LINE] if lines == 1 else f"{lines} lines"
        return size if self.exit_code is None else f"exit {self.exit_code}, {size}"


@dataclass(frozen=True)
class FoldedCall:
    """A tool call with its result, if one came; `place`: of the call in its turn."""

    call: ToolCall
    result: Result | None
    place: int = 0

    @cached_property
    def texts(self) -> tuple[list[ToolText], ToolText | None]:
        """Its arguments and its result, in parts."""
        return call_texts(self.call, self.result.message if self.result else None, self.place)

    @property
    def line(self) -> str:
        """The call's arguments on one line."""
        text = " ".join(self.call.only_argument.split())
        return text if len(text) <= LINE else text[: LINE - 1] + "…"


@dataclass(frozen=True)
class Turn:
    """One message that is not folded into another. `numbers` includes those of the results folded into it."""

    number: int
    message: Message
    calls: tuple[FoldedCall, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.number, *(folded.result.number for folded in self.calls if folded.result is not None))

    @property
    def own_text(self) -> ToolText:
        """The text of its message, for a tool's result that is not folded into a call."""
        return ToolText(self.message.text)

    def tool_text(self, place: str) -> ToolText | None:
        """Return the part of its tool calls at this place."""
        parts = (part for folded in self.calls for part in (*folded.texts[0], folded.texts[1]))
        return next((part for part in parts if part is not None and part.place == place), None)

    @property
    def bad(self) -> bool:
        """Whether a tool result in it looks like a failure."""
        if self.message.kind == "tool":
            return Result(self.number, self.message).bad
        return any(folded.result is not None and folded.result.bad for folded in self.calls)

    @property
    def size(self) -> int:
        """The number of characters that a window shows of it."""
        texts = [self.message.text, self.message.reasoning]
        for folded in self.calls:
            texts += [folded.call.arguments, folded.result.message.text if folded.result else ""]
        return sum(min(len(text), SHOWN) for text in texts)


@dataclass(frozen=True)
class Window:
    """Consecutive turns; `start` and `stop` are positions in Transcript.turns."""

    turns: Sequence[Turn]
    start: int
    stop: int


@dataclass(frozen=True)
class Segment:
    """A part of the strip: where it links to, its most frequent kind of message, and its share of failed turns."""

    x: float
    width: float
    number: int
    kind: str
    bad: float

    @property
    def bad_height(self) -> float:
        """The height of the failure mark: large enough to show a single failure without suggesting many."""
        return STRIP_HEIGHT * max(LEAST_BAD, self.bad)


@dataclass(frozen=True)
class Found:
    """A message that matches a search, with the text around the first match."""

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
        """Return the window that begins at `start`; it has at least one turn if any is left."""
        start = max(0, min(start, len(self.turns)))
        stop, size = start, 0
        while stop < len(self.turns) and stop - start < WINDOW:
            size += self.turns[stop].size
            if size > WINDOW_CHARACTERS and stop > start:
                break
            stop += 1
        return Window(self.turns[start:stop], start, stop)

    def before(self, stop: int) -> Window:
        """Return the window that ends at `stop`."""
        stop = max(0, min(stop, len(self.turns)))
        start, size = stop, 0
        while start > 0 and stop - start < WINDOW:
            size += self.turns[start - 1].size
            if size > WINDOW_CHARACTERS and start < stop:
                break
            start -= 1
        return Window(self.turns[start:stop], start, stop)

    def place_of(self, number: int) -> int | None:
        """Return the position of the turn that shows the message with this number."""
        return self._places.get(number)

    def strip(self) -> list[Segment]:
        """Return the whole transcript as at most SEGMENTS parts of about equal width."""
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
        """Return the first MOST_FOUND messages that contain `text`, ignoring case, in order."""
        wanted, lowered = re.compile(re.escape(text), re.IGNORECASE), text.lower()
        found = (
            _found(number, message, place)
            for number, message in enumerate(self.messages)
            if any(lowered in one.lower() for one in _texts(message))  # takes an eighth of the time of the pattern
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


def transcript(record: RolloutRecord, agent: str = "") -> Transcript:
    """Build the transcript, folding each tool message into the call that it answers. agent: the id of a part."""
    messages = conversation_of(record, agent) if agent else conversation(record)
    results = results_of(messages)
    folded = {number for answers in results.values() for number in answers.values()}
    turns = [
        Turn(number, message, tuple(_folded(messages, results.get(number, {}), number)))
        for number, message in enumerate(messages)
        if number not in folded
    ]
    return Transcript(turns, messages)


def _folded(messages: Sequence[Message], results: Mapping[int, int], number: int) -> Iterator[FoldedCall]:
    for place, call in enumerate(messages[number].calls):
        of = results.get(place)
        yield FoldedCall(call, None if of is None else Result(of, messages[of]), place)
