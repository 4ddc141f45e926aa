"""What model calls asked, stored once: an agent's request repeats its whole conversation, its tools and its pictures.

With the n-th call of a conversation they would take room by n squared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from envhub.protocol.base import JsonObject
from envhub.protocol.evals.rollouts import Continued, Turn

LISTS = ("messages", "input")  # of the protocols: what grows with each call
LOOK_BACK = 8  # earlier calls that one may go on from: agents talk in turns with those that they start
LONG = 500  # characters of a text that is worth leaving out


class Calls:
    """The calls of one rollout, whose requests are whole here."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self._turns = {turn.index: turn for turn in turns}

    def request(self, turn: Turn) -> JsonObject:
        """What was asked. What it shares with other calls is the same object, and is not to be changed."""
        name = list_in(turn.request)
        parts: list[list[Any]] = [turn.request[name]] if name else []
        found: JsonObject = {}
        continued, index = turn.continues, turn.index
        items = continued.items if continued and name else 0
        lacking = set(continued.same) if continued else set()
        while continued is not None and (items > 0 or lacking):
            earlier = self._turns.get(continued.turn)
            if earlier is None or earlier.index >= index:  # whoever pushed this can have written anything
                break
            found |= {field: earlier.request[field] for field in lacking & earlier.request.keys()}
            before = earlier.continues.items if earlier.continues else 0
            own = earlier.request.get(name) if name else None
            if isinstance(own, list) and items > before:
                parts.append(own[: items - before])
            items = min(items, before)
            lacking = (lacking - found.keys()) & set(earlier.continues.same if earlier.continues else ())
            continued, index = earlier.continues, earlier.index
        whole = turn.request | found
        if name:
            whole[name] = [item for part in reversed(parts) for item in part]
        return whole


def shortened(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns of a rollout, in order, each without what it shares with one of those before it."""
    earlier: deque[Turn] = deque(maxlen=LOOK_BACK)
    short = []
    for turn in turns:
        short.append(_short(turn, earlier))
        earlier.appendleft(turn)
    return tuple(short)


def _short(turn: Turn, earlier: Iterable[Turn]) -> Turn:
    name = list_in(turn.request)
    others = [other for other in earlier if other.route == turn.route]
    if not others:
        return turn
    conversations = [other.request[name] if name == list_in(other.request) else [] for other in others] if name else []
    place, items = most_in_common(turn.request[name], conversations) if name else (0, 0)
    best = others[place]
    same = tuple(
        field
        for field, value in turn.request.items()
        if field != name and is_worth_sharing(value) and best.request.get(field) == value
    )
    if not items and not same:
        return turn
    request = {field: value for field, value in turn.request.items() if field not in same}
    if name:
        request[name] = request[name][items:]
    return turn.model_copy(update={"request": request, "continues": Continued(turn=best.index, items=items, same=same)})


def list_in(request: JsonObject) -> str:
    """The field that holds the conversation as a list; "" where none does."""
    return next((name for name in LISTS if isinstance(request.get(name), list)), "")


def most_in_common(items: list[Any], lists: Sequence[list[Any]]) -> tuple[int, int]:
    """The place of the list that begins most like `items`, the first of equals, and how many items that are.

    A conversation that goes on from the longest is compared once.
    """
    longest = max(map(len, lists), default=0)
    best = 0, 0
    for place, others in enumerate(lists):
        alike = _common(items, others)
        if alike > best[1]:
            best = place, alike
        if alike and alike in {longest, len(items)}:
            break
    return best


def _common(items: list[Any], others: list[Any]) -> int:
    pairs = enumerate(zip(items, others, strict=False))
    differ = (place for place, (one, other) in pairs if one is not other and one != other)
    return next(differ, min(len(items), len(others)))


def is_worth_sharing(value: object) -> bool:
    """Tools and long texts are; a temperature is not."""
    return (isinstance(value, list | dict) and bool(value)) or (isinstance(value, str) and len(value) > LONG)
