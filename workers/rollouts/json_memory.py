"""Estimates the memory that parsed JSON takes: many small values take much more than their text."""

from __future__ import annotations

import sys


def memory_of(value: object) -> int:
    """Return about how many bytes a JSON value takes in memory; a number counts as much as its text."""
    total, left = 0, [value]
    while left:
        match left.pop():
            case str() as text:
                total += sys.getsizeof(text)
            case list() as items:
                total += 64
                left += items
            case dict() as fields:
                total += 100 + 60 * len(fields)
                left += fields.values()
            case _:
                total += 8
    return total
