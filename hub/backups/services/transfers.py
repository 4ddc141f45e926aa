"""Many files at once, over a few threads, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
THREADS = 8
BATCH = 64 * THREADS


def each_of(items: Iterable[Item], do: Callable[[Item], Result]) -> Iterator[Result]:
    """What `do` gives for each, in order. Raises what it raises; what was begun comes to its end before."""
    remaining = iter(items)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="backup") as pool:
        while batch := list(islice(remaining, BATCH)):
            yield from pool.map(do, batch)
