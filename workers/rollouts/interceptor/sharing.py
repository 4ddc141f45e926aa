"""Keeps what one recorder's calls have in common in memory once, and counts it once against its room."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import Any

from envhub.packaging.calls import LOOK_BACK, is_worth_sharing, list_in, most_in_common
from envhub.protocol.base import JsonObject

from workers.rollouts.json_memory import memory_of


@dataclass(frozen=True)
class _Asked:
    """A conversation from a request, with the approximate size of each item in bytes."""

    field: str
    items: list[Any]
    sizes: list[int]


class Sharing:
    """Shares the requests of one recorder; envhub.packaging.calls leaves the same parts out of what is stored."""

    def __init__(self) -> None:
        self._asked: deque[_Asked] = deque(maxlen=LOOK_BACK)
        self._fields: dict[str, tuple[Any, int]] = {}  # the latest values with their sizes

    def once(self, request: JsonObject) -> tuple[JsonObject, int]:
        """Return the request with parts of earlier requests reused, and the number of bytes saved by it.

        That is less, also less than 0, by what the values of the rest take in memory beyond their text.
        """
        shared, saved = dict(request), 0
        name = list_in(request)
        for field, value in request.items():
            if field == name or not is_worth_sharing(value):
                continue
            before, size = self._fields.get(field, (None, 0))
            if before == value:
                shared[field] = before
                saved += size
            else:
                size = _size(value)
                self._fields[field] = value, size
                saved -= max(0, memory_of(value) - size)
        if name:
            shared[name], more = self._items(name, request[name])
            saved += more
        return shared, saved

    def _items(self, field: str, items: list[Any]) -> tuple[list[Any], int]:
        earlier = [asked for asked in self._asked if asked.field == field] or [_Asked(field, [], [])]
        place, alike = most_in_common(items, [asked.items for asked in earlier])
        best = earlier[place]
        whole = [*best.items[:alike], *items[alike:]]
        sizes = [*best.sizes[:alike], *map(_size, items[alike:])]
        self._asked.appendleft(_Asked(field, whole, sizes))
        more = sum(map(memory_of, items[alike:])) - sum(sizes[alike:])
        return whole, sum(sizes[:alike]) - max(0, more)


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False))  # counts characters, of which there are at most as many as bytes
