"""Rollouts as they are planned, and `concurrency` of them kept in flight in the plan's order, lazily."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """Rollouts first .. first + n - 1 of one example, run together. `example_hash` when some were stored before."""

    example: int
    first: int
    n: int
    example_hash: str | None = None


async def run_all(units: Iterable[Unit], concurrency: int, run: Callable[[Unit], Awaitable[None]]) -> None:
    """Run every unit; the first error cancels the others. A group larger than `concurrency` runs alone."""
    free = Permits(concurrency)
    try:
        async with asyncio.TaskGroup() as tasks:
            for unit in units:
                weight = min(unit.n, concurrency)
                await free.take(weight)
                task = tasks.create_task(_one(run, unit))
                task.add_done_callback(lambda _, weight=weight: free.give(weight))  # type: ignore[misc]
    except BaseExceptionGroup as group:
        raise first_of(group) from None


async def _one(run: Callable[[Unit], Awaitable[None]], unit: Unit) -> None:
    await run(unit)


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that the other tasks were cancelled for."""
    error = group.exceptions[0]
    return first_of(error) if isinstance(error, BaseExceptionGroup) else error


class Permits:
    """A semaphore that hands out several permits at once, to one waiter."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._changed = asyncio.Event()

    async def take(self, number: int) -> None:
        """Wait until that many are free."""
        while self._free < number:
            self._changed.clear()
            await self._changed.wait()
        self._free -= number

    def give(self, number: int) -> None:
        """Give some back."""
        self._free += number
        self._changed.set()
