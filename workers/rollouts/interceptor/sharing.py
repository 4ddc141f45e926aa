"""What the calls of one recorder have in common is kept in memory once, and counted once against its room."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import Any

from envhub.packaging.calls import LOOK_BACK, is_worth_sharing, list_in, most_in_common
from envhub.protocol.base import JsonObject


@dataclass(frozen=True)
class _Asked:
    """A conversation as it was asked, and about how many bytes each of its items takes."""

    field: str
    items: list[Any]
    sizes: list[int]


class Sharing:
    """Of a recorder; envhub.packaging.calls leaves the same out of what is stored."""

    def __init__(self) -> None:
        self._asked: deque[_Asked] = deque(maxlen=LOOK_BACK)
        self._fields: dict[str, tuple[Any, int]] = {}  # as they were last, with their sizes

    def once(self, request: JsonObject) -> tuple[JsonObject, int]:
        """The request with what was asked before in the place of its equal, and how many bytes need no room."""
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
                self._fields[field] = value, _size(value)
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
        return whole, sum(sizes[:alike])


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False))  # in characters: of bytes there are no fewer
